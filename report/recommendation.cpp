#include "report/recommendation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/readable.h"

namespace thinwire::report {
namespace {

constexpr double kRounding = 1e-9;  // of shares, which are quotients

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

const ComparedRun* find_baseline(const Comparison& comparison) {
  const auto found = std::ranges::find(comparison.runs, kBaseline, &ComparedRun::strategy);
  return found != comparison.runs.end() && found->finished() ? &*found : nullptr;
}

// Returns why there can be no recommendation; empty if there can.
std::string why_no_result(const Comparison& comparison, const ComparedRun& baseline) {
  if (baseline.diverged) {
    return fmt::format(
        "{} diverged here: its loss is not finite. There is no recommendation; try a "
        "smaller --lr.",
        kBaseline);
  }
  if (baseline.accuracy >= comparison.chance + kLearned * (1 - comparison.chance)) return {};
  const std::string guessing =
      comparison.chance > 0 ? fmt::format(", where always giving the commonest answer gets {}",
                                          percent(comparison.chance))
                            : "";
  return fmt::format(
      "{} did not learn here: {} accuracy{}. There is no recommendation; try a smaller "
      "--lr, or more epochs.",
      kBaseline, percent(baseline.accuracy), guessing);
}

double target_of(const ComparedRun& baseline) {
  return std::floor(100 * (baseline.accuracy - kSameAccuracy) + kRounding) / 100;
}

// Fills in where the tests stood when the accuracy first came up to the target.
void find_target(const ComparedRun& run, double target, RunComparison& out) {
  const auto reached = std::ranges::find_if(
      run.tests, [&](const TestPoint& test) { return test.accuracy >= target; });
  if (reached == run.tests.end()) return;
  out.at_first_test = reached == run.tests.begin();
  const TestPoint& before = out.at_first_test ? *reached : *(reached - 1);
  const double share =
      out.at_first_test ? 0 : (target - before.accuracy) / (reached->accuracy - before.accuracy);
  out.seconds_to_target = before.seconds + share * (reached->seconds - before.seconds);
  out.bytes_to_target = before.bytes + share * (reached->bytes - before.bytes);
}

std::optional<double> ratio(const std::optional<double>& theirs,
                            const std::optional<double>& ours) {
  if (!theirs || !ours || !(*theirs > 0) || !(*ours > 0)) return std::nullopt;
  return *theirs / *ours;
}

// The comparison of the baseline with itself exists already.
RunComparison compare_with(const ComparedRun& run, const ComparedRun& baseline,
                           const RunComparison& theirs, const std::optional<double>& target) {
  RunComparison out;
  if (!run.finished()) return out;
  out.as_accurate = !run.diverged && run.accuracy >= baseline.accuracy - kSameAccuracy - kRounding;
  out.fewer_bytes = ratio(baseline.bytes_sent, run.bytes_sent);
  if (!target) return out;
  find_target(run, *target, out);
  if (theirs.at_first_test) return out;
  out.sooner = ratio(theirs.seconds_to_target, out.seconds_to_target);
  out.fewer_bytes_to_target = ratio(theirs.bytes_to_target, out.bytes_to_target);
  return out;
}

bool at_the_same_time(const RunComparison& compared) {
  return compared.sooner && *compared.sooner <= 1 + kSameTime &&
         *compared.sooner >= 1 / (1 + kSameTime);
}

// Returns the run with the largest value among those that pass.
template <class Passes, class Amount>
std::optional<std::size_t> most(std::size_t count, Passes passes, Amount amount) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < count; ++i) {
    if (passes(i) && (!best || amount(i) > amount(*best))) best = i;
  }
  return best;
}

std::optional<std::size_t> find_winner(const std::vector<RunComparison>& comparisons) {
  return most(
      comparisons.size(),
      [&](std::size_t i) {
        const RunComparison& each = comparisons[i];
        return each.as_accurate && each.sooner && *each.sooner > 1 + kSameTime;
      },
      [&](std::size_t i) { return *comparisons[i].sooner; });
}

std::string bytes_text(double fewer) {
  if (fewer >= 1 + kSameTime) return fmt::format("{} fewer bytes", base::readable_factor(fewer));
  if (fewer <= 1 / (1 + kSameTime))
    return fmt::format("{} more bytes", base::readable_factor(1 / fewer));
  return "as many bytes";
}

// Returns ", with 6.1x fewer bytes" for the time until the target was reached; empty if that is not
// known.
std::string bytes_until_then(const RunComparison& compared) {
  const auto& fewer = compared.fewer_bytes_to_target;
  if (!fewer || (compared.at_first_test && *fewer < 1 + kSameTime)) return {};
  return fmt::format(", with {}{}", compared.at_first_test ? "at least " : "", bytes_text(*fewer));
}

// Returns why the times are doubtful; empty if they are not.
std::string timing_caveat(const Comparison& comparison) {
  if (!comparison.same_computing) return {};
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
      base::readable_time(Seconds(computing(*quick))), quick->strategy,
      base::readable_time(Seconds(computing(*slow))), slow->strategy);
}

std::string network_share(const ComparedRun& baseline) {
  const double share = baseline.seconds > 0 ? baseline.wire / baseline.seconds : 0;
  return fmt::format("the network takes {:.0f} % of the step", 100 * share);
}

// Returns advantages of other strategies where none is clearly sooner.
std::vector<std::string> alternatives(const Comparison& comparison,
                                      const Recommendation& recommendation,
                                      const ComparedRun& baseline) {
  const auto& runs = comparison.runs;
  const auto& comparisons = recommendation.comparisons;
  const auto gain = [&](std::size_t i) { return runs[i].accuracy - baseline.accuracy; };
  std::vector<std::string> out;
  const auto better = most(
      runs.size(),
      [&](std::size_t i) {
        return comparisons[i].as_accurate && gain(i) > kSameAccuracy + kRounding;
      },
      gain);
  if (better) {
    out.push_back(fmt::format("{} gains {:.1f} points of accuracy", runs[*better].strategy,
                              100 * gain(*better)));
  }
  const auto fewer = [&](std::size_t i) {
    return comparisons[i].fewer_bytes_to_target.value_or(0);
  };
  const auto thrifty = most(
      runs.size(),
      [&](std::size_t i) {
        return comparisons[i].as_accurate && at_the_same_time(comparisons[i]) &&
               fewer(i) >= kFarFewerBytes;
      },
      fewer);
  if (thrifty) {
    out.push_back(fmt::format("{} takes the same time with {}", runs[*thrifty].strategy,
                              bytes_text(fewer(*thrifty))));
  }
  return out;
}

std::string winner_text(const ComparedRun& run, const RunComparison& best, double target) {
  const std::string_view bound = best.at_first_test ? "at least " : "";
  std::string text =
      fmt::format("{} reaches {:.0f} % accuracy {}{} sooner than {}", run.strategy, 100 * target,
                  bound, base::readable_factor(*best.sooner), kBaseline);
  return text + bytes_until_then(best) + ".";
}

// Returns the headline where no strategy is clearly sooner than the baseline.
std::string keep_baseline_text(const Comparison& comparison, const Recommendation& recommendation,
                               const ComparedRun& baseline, const RunComparison& own) {
  const auto finished = std::ranges::count_if(comparison.runs, &ComparedRun::finished);
  const std::string network = network_share(baseline);
  if (finished == 1) return fmt::format("Only {} has finished: {}.", kBaseline, network);
  const auto others = alternatives(comparison, recommendation, baseline);
  const std::string offer = fmt::format("{}", fmt::join(others, ", and "));
  constexpr double kSmallShare = 0.2;
  if (baseline.wire < kSmallShare * baseline.seconds || baseline.wire == 0) {
    return fmt::format("{} is fine here: {}.{}", kBaseline, network,
                       others.empty() ? "" : fmt::format(" But {}.", offer));
  }
  if (own.at_first_test) {
    return fmt::format(
        "{} reaches {:.0f} % by its first test, so the times cannot be compared: test more often "
        "(--eval-every).",
        kBaseline, 100 * *recommendation.target);
  }
  if (!others.empty()) {
    return fmt::format("Nothing reaches the accuracy of {} clearly sooner, though {}; but {}.",
                       kBaseline, network, offer);
  }
  const bool all = finished == std::ssize(comparison.runs);
  return fmt::format(
      "{} is the best choice {}: {}, but nothing else reaches its accuracy clearly sooner.",
      kBaseline, all ? "here" : fmt::format("of the {} that finished", finished), network);
}

std::string headline(const Comparison& comparison, const Recommendation& recommendation,
                     const ComparedRun& baseline, const RunComparison& own) {
  if (!recommendation.target) return why_no_result(comparison, baseline);
  if (!recommendation.winner) return keep_baseline_text(comparison, recommendation, baseline, own);
  return winner_text(comparison.runs[*recommendation.winner],
                     recommendation.comparisons[*recommendation.winner], *recommendation.target);
}

// Returns facts that limit the headline: runs without a result, no network, doubtful times.
std::string headline_caveats(const Comparison& comparison) {
  std::vector<std::string_view> missing;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.finished() && run.strategy != kBaseline) missing.push_back(run.strategy);
  }
  std::string text;
  if (!missing.empty()) text += fmt::format(" Without a result: {}.", fmt::join(missing, ", "));
  if (!comparison.network_imitated) {
    text += " No network was imitated: add --network 1gbit,0.2ms.";
  }
  if (!timing_caveat(comparison).empty()) text += " The times are doubtful.";
  return text;
}

std::string accuracy_text(const ComparedRun& run, const RunComparison& compared,
                          const ComparedRun& baseline) {
  const std::string both =
      fmt::format("({} against {})", percent(run.accuracy), percent(baseline.accuracy));
  const double difference = run.accuracy - baseline.accuracy;
  if (run.diverged) return fmt::format("diverged, its loss is not finite {}", both);
  if (compared.as_accurate && difference <= kSameAccuracy + kRounding) {
    return fmt::format("as accurate as {} {}", kBaseline, both);
  }
  return fmt::format("{} {:.1f} points of accuracy {}", difference < 0 ? "loses" : "gains",
                     100 * std::abs(difference), both);
}

std::string time_text(const RunComparison& compared, double target) {
  const double sooner = compared.sooner.value_or(0);
  std::string text = fmt::format("reaches {:.0f} % ", 100 * target);
  if (compared.at_first_test) text += "by its first test, ";
  const bool known = compared.sooner && !(compared.at_first_test && sooner < 1 + kSameTime);
  if (!known) {
    text += fmt::format("after {}", base::readable_time(Seconds(*compared.seconds_to_target)));
  } else if (at_the_same_time(compared)) {
    text += "at the same time";
  } else if (sooner > 1) {
    text += fmt::format("{}{} sooner", compared.at_first_test ? "at least " : "",
                        base::readable_factor(sooner));
  } else {
    text += fmt::format("{} later", base::readable_factor(1 / sooner));
  }
  return text + bytes_until_then(compared);
}

// Returns the sentence that compares a run with the baseline.
std::string comparison_text(const ComparedRun& run, const RunComparison& compared, double target,
                            const ComparedRun& baseline) {
  const std::string accuracy = accuracy_text(run, compared, baseline);
  if (compared.seconds_to_target) return accuracy + "; " + time_text(compared, target);
  const std::string never =
      run.tests.empty() ? "" : fmt::format("; does not reach {:.0f} %", 100 * target);
  if (!compared.fewer_bytes) return accuracy + never;
  return fmt::format("{}{}; {} over the whole run", accuracy, never,
                     bytes_text(*compared.fewer_bytes));
}

std::string sentence(const ComparedRun& run, const RunComparison& compared,
                     const Recommendation& recommendation, const ComparedRun* baseline) {
  if (!run.finished()) {
    return fmt::format("{} has no result: {}", run.strategy,
                       run.problem.empty() ? "it has not run yet" : run.problem);
  }
  std::string text = run.strategy;
  if (&run == baseline) {
    text += fmt::format(" is the baseline{}: {} after {}, of which the network took {:.0f} %",
                        run.diverged ? ", though it diverged" : "", percent(run.accuracy),
                        base::readable_time(Seconds(run.seconds)),
                        run.seconds > 0 ? 100 * run.wire / run.seconds : 0);
  } else if (recommendation.target) {
    text += ": " + comparison_text(run, compared, *recommendation.target, *baseline);
  } else {
    text += fmt::format(": {}{} after {}", run.diverged ? "diverged; " : "", percent(run.accuracy),
                        base::readable_time(Seconds(run.seconds)));
  }
  for (const std::string& warning : run.warnings) text += "; warned: " + warning;
  return text;
}

std::vector<std::string> caveats(const Comparison& comparison) {
  std::vector<std::string> out;
  if (!comparison.network_imitated) {
    out.emplace_back(
        "No network was imitated: the workers communicated through the memory of one machine, "
        "which "
        "is faster than any wire. `--network 1gbit,0.2ms` shows what a network would change.");
  }
  if (const std::string reason = timing_caveat(comparison); !reason.empty()) out.push_back(reason);
  out.push_back(
      fmt::format("One seed is one sample: accuracies within {} points, and times within {:.0f} %, "
                  "count as the same. Repeat with other seeds before you rely on less than twice "
                  "that.",
                  100 * kSameAccuracy, 100 * kSameTime));
  out.emplace_back(
      "The learning rate and its schedule were the same for all; a strategy may do better with its "
      "own.");
  if (std::ranges::any_of(comparison.runs, &ComparedRun::drifted)) {
    out.emplace_back(
        "Where workers have models of their own, the mean of all models was tested. It is "
        "formed for the test alone, which counts neither as time nor as bytes.");
  }
  out.emplace_back(comparison.virtual_time
                       ? "All times are simulated."
                       : "The workers shared the cores of one machine: on machines of their own "
                         "computing takes less time, and the network weighs more.");
  return out;
}

}  // namespace

Recommendation recommend(const Comparison& comparison) {
  const auto& runs = comparison.runs;
  Recommendation recommendation;
  recommendation.comparisons.resize(runs.size());
  const ComparedRun* baseline = find_baseline(comparison);
  if (baseline != nullptr) {
    if (why_no_result(comparison, *baseline).empty()) recommendation.target = target_of(*baseline);
    RunComparison own;
    if (recommendation.target) find_target(*baseline, *recommendation.target, own);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      recommendation.comparisons[i] = compare_with(runs[i], *baseline, own, recommendation.target);
    }
    recommendation.winner = find_winner(recommendation.comparisons);
    recommendation.headline = headline(comparison, recommendation, *baseline, own);
    recommendation.caveats = caveats(comparison);
  } else {
    recommendation.headline =
        fmt::format("{} has not finished: there is nothing to compare with yet.", kBaseline);
  }
  recommendation.headline += headline_caveats(comparison);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    recommendation.sentences.push_back(
        sentence(runs[i], recommendation.comparisons[i], recommendation, baseline));
  }
  return recommendation;
}

}  // namespace thinwire::report
