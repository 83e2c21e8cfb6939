#include "tests/faults/report.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "thinwire/stats.h"

namespace thinwire::faults {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  std::vector<double> survivors, run;
  int hung = 0, unnamed = 0, left_over = 0, lost = 0;

  // Adds the outcome of a fault that was injected.
  void add(const Json& line) {
    survivors.push_back(line.at("survivors_seconds"));
    run.push_back(line.at("run_seconds"));
    hung += line.at("hung").get<bool>();
    unnamed += !line.at("named").get<bool>();
    left_over += !line.at("clean").get<bool>();
    lost += !line.at("resumed").get<bool>();
  }
  std::string cells() const {
    const Summary ended = summarize(survivors), over = summarize(run);
    return fmt::format("{} | {:.2f} | {:.2f} | {:.2f} | {} | {} | {} | {} |", survivors.size(),
                       ended.median, ended.max, over.max, hung, unnamed, left_over, lost);
  }
};

std::string table(std::string_view first_column, const std::map<std::string, Row>& rows) {
  std::string text = fmt::format(
      "| {} | injected | survivors ended, median s | max s | run ended, max s | hung | not named | "
      "left over | lost |\n|---|---|---|---|---|---|---|---|---|\n",
      first_column);
  for (const auto& [name, row] : rows) text += fmt::format("| {} | {}\n", name, row.cells());
  return text;
}

}  // namespace

std::string to_json(const Outcome& outcome, std::uint64_t seed) {
  const Fault& fault = outcome.fault;
  Json line = {{"seed", seed},
               {"number", fault.number},
               {"transport", fault.transport},
               {"strategy", fault.strategy},
               {"kind", word(fault.kind)},
               {"victim", fault.victim},
               {"step", fault.step},
               {"injected", outcome.injected},
               {"survivors_seconds", outcome.survivors.count()},
               {"run_seconds", outcome.run.count()},
               {"hung", outcome.hung},
               {"named", outcome.named},
               {"clean", outcome.clean},
               {"resumed", outcome.resumed},
               {"problem", outcome.problem}};
  if (!outcome.problem.empty()) line["output"] = outcome.output;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string tables(const std::filesystem::path& lines) {
  std::ifstream in(lines);
  if (!in) throw std::runtime_error(fmt::format("{} cannot be read", lines.string()));
  std::map<std::string, Row> by_kind, by_strategy;
  Row all;
  int not_injected = 0;
  for (std::string text; std::getline(in, text);) {
    const Json line = Json::parse(text);
    if (!line.at("injected").get<bool>()) {
      ++not_injected;
      continue;
    }
    const auto kind = line.at("kind").get<std::string>();
    const std::string when = line.at("step") == 0 ? " while joining" : "";
    by_kind[fmt::format("{}, {}{}", line.at("transport").get<std::string>(), kind, when)].add(line);
    by_strategy[line.at("strategy")].add(line);
    all.add(line);
  }
  return table("fault", by_kind) + fmt::format("| all | {}\n\n", all.cells()) +
         table("strategy", by_strategy) +
         fmt::format("\nNot injected, because the run did not reach that moment: {}\n",
                     not_injected);
}

}  // namespace thinwire::faults
