#include "trainer/milestones.h"

#include <gtest/gtest.h>

#include <string>

namespace thinwire::trainer {
namespace {

// The milestones of a run whose position grows by `stride`.
std::string walk(Milestones milestones, double first, double stride) {
  std::string out;
  for (double position = first + stride; !milestones.over(); position += stride) {
    while (const auto milestone = milestones.due(position)) {
      out += std::to_string(milestone->step);
      if (milestone->test) out += 't';
      if (milestone->save) out += 's';
      if (milestone->last) out += 'l';
      out += ' ';
    }
  }
  return out;
}

TEST(Milestones, ComeInTheSameOrderHoweverLongTheSteps) {
  const std::string expected = "3t 4s 6t 8s 9t 10sl ";
  for (const double stride : {1.0, 0.3, 2.5, 100.0}) {
    EXPECT_EQ(walk(Milestones(0, 10, 3, 4), 0, stride), expected) << stride;
  }
}

TEST(Milestones, GoOnAfterAResume) {
  EXPECT_EQ(walk(Milestones(4, 10, 3, 4), 4, 1), "6t 8s 9t 10sl ");
  EXPECT_EQ(walk(Milestones(0, 5, 0, 0), 0, 1), "5sl ");
  EXPECT_TRUE(Milestones(10, 10, 3, 4).over());
}

}  // namespace
}  // namespace thinwire::trainer
