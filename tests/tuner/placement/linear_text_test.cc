#include "server/tuner/placement/linear_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/tuner/placement/integer_program.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// Two jobs and a pool of six nodes; the second job is required.
IntegerProgram TwoJobs() {
  IntegerProgram program = {.node_counts = {6}};
  program.jobs.push_back(
      {.options = {{.option = 0, .uses = {{.pool = 0, .node_count = 4}}, .value = 3},
                   {.option = 2, .uses = {{.pool = 0, .node_count = 2}}, .value = 1.5}}});
  program.jobs.push_back(
      {.is_required = true,
       .options = {{.option = 1, .uses = {{.pool = 0, .node_count = 4}}, .value = 1}}});
  return program;
}

// The greatest values are 3 and 1, so that 1 is written as a quarter of a million.
TEST(LinearTextTest, Text) {
  EXPECT_EQ(LinearTextOf(TwoJobs()).text,
            "Maximize\n value:\n + 750000 x0o0\n + 375000 x0o2\n + 250000 x1o1\n"
            "Subject To\n job0:\n + 1 x0o0\n + 1 x0o2\n <= 1\n job1:\n + 1 x1o1\n = 1\n"
            " pool0:\n + 4 x0o0\n + 2 x0o2\n + 4 x1o1\n <= 6\n"
            "Binary\n x0o0\n x0o2\n x1o1\nEnd\n");
}

TEST(LinearTextTest, FloorIsScaledToOne) {
  IntegerProgram program = TwoJobs();
  program.floor = 4;
  program.jobs[1].options[0].floor_value = 5;
  EXPECT_THAT(LinearTextOf(program).text, testing::HasSubstr(" floor:\n + 1.25 x1o1\n >= 1\n"));
}

// The files that CBC 2.10.8 and GLPK 5.0 wrote for such programs.
TEST(LinearTextTest, CbcSolutions) {
  const LinearText text = LinearTextOf(TwoJobs());
  const auto optimal = ReadCbcSolution(
      "Optimal - objective value 625000.00000000\n"
      "      0 x0o0                   0                  750000\n"
      "      1 x0o2                   1                  375000\n"
      "      2 x1o1      0.999999999999                  250000\n",
      text);
  ASSERT_TRUE(optimal.ok()) << optimal.status();
  EXPECT_EQ(optimal->end, SolverEnd::kOptimal);
  EXPECT_THAT(optimal->chosen, ElementsAre(1, 2));
  const auto infeasible = ReadCbcSolution(
      "Infeasible - objective value -2.50000000\n"
      "**       1 x0o2                -0.5                      -0\n",
      text);
  EXPECT_EQ(infeasible->end, SolverEnd::kInfeasible);
  EXPECT_THAT(infeasible->chosen, IsEmpty());
  const auto stopped = ReadCbcSolution(
      "Stopped on time - objective value 750000.00000000\n"
      "      0 x0o0                   1                  750000\n",
      text);
  EXPECT_EQ(stopped->end, SolverEnd::kStopped);
  EXPECT_THAT(stopped->chosen, ElementsAre(0));
  const auto nothing = ReadCbcSolution(
      "Stopped on time (no integer solution - continuous used) - objective value 7.00000000\n"
      "      0 x0o0                 0.5                  750000\n",
      text);
  EXPECT_THAT(nothing->chosen, IsEmpty());
  EXPECT_EQ(ReadCbcSolution("Unbounded\n", text).status().message(),
            "cbc wrote a solution that cannot be read: \"Unbounded\"");
  EXPECT_EQ(ReadCbcSolution("\xff\n", text).status().message(),
            "cbc wrote a solution that cannot be read: \"\\xff\"");
}

TEST(LinearTextTest, GlpkSolutions) {
  const LinearText text = LinearTextOf(TwoJobs());
  const auto optimal = ReadGlpkSolution(
      "c Status:     INTEGER OPTIMAL\nc\ns mip 3 3 o 625000\ni 1 1\ni 2 1\ni 3 6\n"
      "j 1 0\nj 2 1\nj 3 1\ne o f\n",
      text);
  ASSERT_TRUE(optimal.ok()) << optimal.status();
  EXPECT_EQ(optimal->end, SolverEnd::kOptimal);
  EXPECT_THAT(optimal->chosen, ElementsAre(1, 2));
  EXPECT_EQ(ReadGlpkSolution("s mip 3 3 n 0\nj 1 0\nj 2 0\nj 3 0\ne o f\n", text)->end,
            SolverEnd::kInfeasible);
  EXPECT_EQ(ReadGlpkSolution("s mip 3 3 f 7\nj 1 1\nj 2 0\nj 3 0\ne o f\n", text)->end,
            SolverEnd::kStopped);
  EXPECT_FALSE(ReadGlpkSolution("s mip 3 3 o 7\nj 1 1\ne o f\n", text).ok());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
