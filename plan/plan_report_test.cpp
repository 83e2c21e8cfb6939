// The advice that follows from predictions.
#include "plan/plan_report.h"

#include <gtest/gtest.h>

namespace thinwire::plan {
namespace {

Prediction made_up(std::string strategy, int workers, double seconds,
                   SyncMode sync_mode = SyncMode::synchronous) {
  Prediction out;
  out.strategy = std::move(strategy);
  out.workers = workers;
  out.step = Seconds(seconds);
  out.sync_mode = sync_mode;
  return out;
}

std::string advice(const std::vector<int>& workers, const std::vector<Prediction>& predictions) {
  PlanSetting setting;
  setting.workers = workers;
  std::string out;
  for (const std::string& line : plan_advice(setting, predictions)) out += line + "\n";
  return out;
}

TEST(PlanAdvice, PrefersDenseWhereItIsAsGood) {
  const std::string text = advice({8, 4}, {made_up("dense", 4, 1.04), made_up("dense", 8, 2),
                                           made_up("gtopk", 4, 1), made_up("gtopk", 8, 1)});
  EXPECT_NE(text.find("8 workers: gtopk"), std::string::npos) << text;
  EXPECT_NE(text.find("Up to 4 workers dense is as good: use it."), std::string::npos) << text;
  EXPECT_NE(text.find("as good: dense)"), std::string::npos) << text;
  EXPECT_NE(advice({4}, {made_up("dense", 4, 1), made_up("gtopk", 4, 2)})
                .find("With 4 workers dense is as good: use it."),
            std::string::npos);
  EXPECT_NE(advice({4, 8}, {made_up("dense", 4, 2), made_up("dense", 8, 1), made_up("topk", 4, 1)})
                .find("With 8 workers dense is as good"),
            std::string::npos);
}

TEST(PlanAdvice, NamesStrategiesThatLetModelsDifferApart) {
  const std::string text =
      advice({4}, {made_up("gtopk", 4, 1), made_up("gossip", 4, 0.5, SyncMode::asynchronous)});
  EXPECT_NE(text.find("4 workers: gtopk"), std::string::npos) << text;
  EXPECT_NE(text.find("if models may differ for a while: gossip"), std::string::npos) << text;
  EXPECT_EQ(text.find("dense"), std::string::npos) << text;
}

TEST(PlanAdvice, SaysWhatDenseIsAsGoodAs) {
  const std::string text =
      advice({4}, {made_up("dense", 4, 1), made_up("gossip", 4, 0.5, SyncMode::asynchronous)});
  EXPECT_NE(text.find("With 4 workers dense is as good as anything that keeps all models equal."),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace thinwire::plan
