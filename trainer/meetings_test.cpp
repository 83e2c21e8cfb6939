#include "trainer/meetings.h"

#include <gtest/gtest.h>

#include <string>

namespace thinwire::trainer {
namespace {

// The meetings of a run whose position grows by `stride`.
std::string walk(Meetings meetings, double first, double stride) {
  std::string out;
  for (double position = first + stride; !meetings.over(); position += stride) {
    while (const auto meeting = meetings.due(position)) {
      out += std::to_string(meeting->step);
      if (meeting->test) out += 't';
      if (meeting->save) out += 's';
      if (meeting->last) out += 'l';
      out += ' ';
    }
  }
  return out;
}

TEST(Meetings, ComeInTheSameOrderHoweverLongTheSteps) {
  const std::string expected = "3t 4s 6t 8s 9t 10sl ";
  for (const double stride : {1.0, 0.3, 2.5, 100.0}) {
    EXPECT_EQ(walk(Meetings(0, 10, 3, 4), 0, stride), expected) << stride;
  }
}

TEST(Meetings, GoOnAfterAResume) {
  EXPECT_EQ(walk(Meetings(4, 10, 3, 4), 4, 1), "6t 8s 9t 10sl ");
  EXPECT_EQ(walk(Meetings(0, 5, 0, 0), 0, 1), "5sl ");
  EXPECT_TRUE(Meetings(10, 10, 3, 4).over());
}

}  // namespace
}  // namespace thinwire::trainer
