"""``python -m thinwire``: the versions, the transports and the strategies."""

from __future__ import annotations

import argparse
import platform
import textwrap

from thinwire import _library


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m thinwire", description="Shows the versions, transports and strategies."
    )
    parser.add_argument("--keys", action="store_true", help="also show the keys of each strategy")
    options = parser.parse_args()
    print(f"thinwire {_library.version()} ({_library.find()})")
    print(f"python {platform.python_version()}")
    try:
        import torch

        print(f"torch {torch.__version__}")
    except ImportError:
        print("torch is not installed; thinwire.torch needs it")
    print("\ntransports")
    for transport in _library.transports():
        print(f"  {transport['name']:<10}{transport['help']}")
    print("\nstrategies: attach() takes those that exchange gradients, average() the others")
    for strategy in _library.strategies():
        print(f"  {strategy['name']:<10}{strategy['exchanges']:<11}{strategy['help']}")
        for key in strategy["keys"] if options.keys else []:
            text = f"{key['name']}={key['default']}  ({key['allowed']})"
            print(textwrap.indent(textwrap.fill(text, 84), " " * 14))


if __name__ == "__main__":
    main()
