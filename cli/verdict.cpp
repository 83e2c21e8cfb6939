#include "cli/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/readable.h"

namespace thinwire::cli {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

const ComparedRun* find_baseline(const Comparison& comparison) {
  const auto found = std::ranges::find(comparison.runs, kBaseline, &ComparedRun::strategy);
  return found != comparison.runs.end() && found->finished() ? &*found : nullptr;
}

std::optional<double> target_of(const ComparedRun& baseline) {
  constexpr double kRounding = 1e-9;
  const double target = std::floor(100 * (baseline.accuracy - kSameAccuracy) + kRounding) / 100;
  return target > 0 ? std::optional(target) : std::nullopt;
}

// Where a quantity of the tests stood when the accuracy first came up to the target.
std::optional<double> at_target(const ComparedRun& run, double target,
                                double TestPoint::*quantity) {
  const auto reached = std::ranges::find_if(
      run.tests, [&](const TestPoint& test) { return test.accuracy >= target; });
  if (reached == run.tests.end()) return std::nullopt;
  if (reached == run.tests.begin()) return (*reached).*quantity;
  const TestPoint& before = *(reached - 1);
  const double share = (target - before.accuracy) / (reached->accuracy - before.accuracy);
  return before.*quantity + share * ((*reached).*quantity - before.*quantity);
}

Standing stand(const ComparedRun& run, const ComparedRun& baseline,
               const std::optional<double>& target) {
  Standing out;
  if (!run.finished()) return out;
  constexpr double kRounding = 1e-9;
  out.as_accurate = !run.diverged && run.accuracy >= baseline.accuracy - kSameAccuracy - kRounding;
  if (run.bytes_sent > 0) out.fewer_bytes = baseline.bytes_sent / run.bytes_sent;
  if (!target) return out;
  out.seconds_to_target = at_target(run, *target, &TestPoint::seconds);
  out.bytes_to_target = at_target(run, *target, &TestPoint::bytes);
  const auto theirs = at_target(baseline, *target, &TestPoint::seconds);
  if (out.seconds_to_target && theirs && *out.seconds_to_target > 0) {
    out.sooner = *theirs / *out.seconds_to_target;
  }
  return out;
}

std::optional<std::size_t> find_winner(const std::vector<Standing>& standings) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < standings.size(); ++i) {
    const Standing& each = standings[i];
    if (!each.as_accurate || !each.sooner || *each.sooner <= 1 + kSameTime) continue;
    if (!best || *each.sooner > *standings[*best].sooner) best = i;
  }
  return best;
}

std::string bytes_text(double fewer) {
  if (fewer >= 1 + kSameTime) return fmt::format("{} fewer bytes", readable_factor(fewer));
  if (fewer <= 1 / (1 + kSameTime)) return fmt::format("{} more bytes", readable_factor(1 / fewer));
  return "as many bytes";
}

// What makes the times doubtful; empty if nothing does.
std::string doubt(const Comparison& comparison) {
  const ComparedRun *quick = nullptr, *slow = nullptr;
  const auto computing = [](const ComparedRun& run) { return run.per_step(run.compute); };
  for (const ComparedRun& run : comparison.runs) {
    if (!run.finished()) continue;
    if (quick == nullptr || computing(run) < computing(*quick)) quick = &run;
    if (slow == nullptr || computing(run) > computing(*slow)) slow = &run;
  }
  if (quick == nullptr || computing(*slow) <= kUnsteadyComputing * computing(*quick)) return {};
  return fmt::format(
      "Do not trust the times: computing a step took {} with {} and {} with {}, though it is the "
      "same work. The machine was busy, or has too few cores for the workers. `--transport sim "
      "--step-time S` leaves that out.",
      readable_time(Seconds(computing(*quick))), quick->strategy,
      readable_time(Seconds(computing(*slow))), slow->strategy);
}

std::string headline(const Comparison& comparison, const Verdict& verdict,
                     const ComparedRun& baseline) {
  if (verdict.winner) {
    const Standing& best = verdict.standings[*verdict.winner];
    return fmt::format("{} reaches {:.0f} % accuracy {} sooner than {}, with {}.",
                       comparison.runs[*verdict.winner].strategy, 100 * *verdict.target,
                       readable_factor(*best.sooner), kBaseline, bytes_text(best.fewer_bytes));
  }
  const double share = baseline.seconds > 0 ? baseline.wire / baseline.seconds : 0;
  const auto contenders = std::ranges::count_if(
      comparison.runs, [&](const auto& r) { return r.finished() && &r != &baseline; });
  const std::string network = fmt::format("the network takes {:.0f} % of the step", 100 * share);
  if (contenders == 0) return fmt::format("Only {} has finished: {}.", kBaseline, network);
  constexpr double kSmallShare = 0.2;
  if (share < kSmallShare) return fmt::format("{} is fine here: {}.", kBaseline, network);
  return fmt::format(
      "{} is the best choice here: {}, but nothing else reaches its accuracy clearly sooner.",
      kBaseline, network);
}

std::string accuracy_text(const ComparedRun& run, const Standing& standing,
                          const ComparedRun& baseline) {
  const double difference = run.accuracy - baseline.accuracy;
  if (standing.as_accurate && difference <= kSameAccuracy) {
    return fmt::format("as accurate as {} ({} against {})", kBaseline, percent(run.accuracy),
                       percent(baseline.accuracy));
  }
  return fmt::format("{} {:.1f} points of accuracy ({} against {})",
                     difference < 0 ? "loses" : "gains", 100 * std::abs(difference),
                     percent(run.accuracy), percent(baseline.accuracy));
}

std::string time_text(const Standing& standing, double target) {
  const std::string accuracy = fmt::format("{:.0f} %", 100 * target);
  if (!standing.sooner) return fmt::format("does not reach {}", accuracy);
  const double sooner = *standing.sooner;
  if (sooner > 1 + kSameTime) {
    return fmt::format("reaches {} {} sooner", accuracy, readable_factor(sooner));
  }
  if (sooner < 1 / (1 + kSameTime)) {
    return fmt::format("reaches {} {} later", accuracy, readable_factor(1 / sooner));
  }
  return fmt::format("reaches {} at the same time", accuracy);
}

std::string sentence(const ComparedRun& run, const Standing& standing, const Verdict& verdict,
                     const ComparedRun& baseline) {
  if (!run.finished()) {
    return fmt::format("{} has no result: {}", run.strategy,
                       run.problem.empty() ? "it has not run yet" : run.problem);
  }
  if (&run == &baseline) {
    return fmt::format("{} is the baseline{}: {} after {}, of which the network took {:.0f} %",
                       run.strategy, run.diverged ? ", though it diverged" : "",
                       percent(run.accuracy), readable_time(Seconds(run.seconds)),
                       run.seconds > 0 ? 100 * run.wire / run.seconds : 0);
  }
  std::string text = fmt::format("{}: {}{}", run.strategy, run.diverged ? "diverged; " : "",
                                 accuracy_text(run, standing, baseline));
  if (verdict.target) text += "; " + time_text(standing, *verdict.target);
  text += "; " + bytes_text(standing.fewer_bytes);
  for (const std::string& warning : run.warnings) text += "; warned: " + warning;
  return text;
}

std::vector<std::string> caveats(const Comparison& comparison) {
  std::vector<std::string> out = {
      fmt::format("One seed is one seed: accuracies within {} points, and times within {:.0f} %, "
                  "count as the same. Repeat with other seeds before you rely on less than twice "
                  "that.",
                  100 * kSameAccuracy, 100 * kSameTime),
      "The learning rate and its schedule were the same for all; a strategy may do better with its "
      "own."};
  out.emplace_back(comparison.virtual_time
                       ? "All times are simulated."
                       : "The workers shared the cores of one machine: on machines of their own "
                         "computing takes less time, and the network weighs more.");
  if (const std::string reason = doubt(comparison); !reason.empty()) {
    out.insert(out.begin(), reason);
  }
  return out;
}

}  // namespace

Verdict judge(const Comparison& comparison) {
  Verdict verdict;
  verdict.standings.resize(comparison.runs.size());
  const ComparedRun* baseline = find_baseline(comparison);
  if (baseline == nullptr) {
    verdict.headline =
        fmt::format("{} has not finished: there is nothing to compare with yet.", kBaseline);
    return verdict;
  }
  verdict.target = target_of(*baseline);
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    verdict.standings[i] = stand(comparison.runs[i], *baseline, verdict.target);
  }
  verdict.winner = find_winner(verdict.standings);
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    verdict.sentences.push_back(
        sentence(comparison.runs[i], verdict.standings[i], verdict, *baseline));
  }
  verdict.headline = headline(comparison, verdict, *baseline);
  if (!doubt(comparison).empty()) verdict.headline += " The times are doubtful.";
  verdict.caveats = caveats(comparison);
  return verdict;
}

}  // namespace thinwire::cli
