#include "cli/reports/explain_report.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "cli/reports/text_width.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

std::string Ranked(const std::string& digest, int tensor, double seconds, double fits) {
  std::ostringstream text;
  text << "plan_digest: '" << digest << "' plan { tensor_parallel: " << tensor
       << " data_parallel: 4 micro_batch_size: 1 } estimate { step_time_seconds: " << seconds
       << " fit_probability_ratio: " << fits << " fits: true tokens_per_second_per_device: 100 }";
  return text.str();
}

v1::ExplainPlanResponse Explained() {
  return Parse<v1::ExplainPlanResponse>(
      "plan {" + Ranked("a", 2, 10, 0.97) + "} launch {" + Ranked("a", 2, 10, 0.97) + "} best {" +
      Ranked("b", 4, 9.8, 0.96) +
      "} recommendation: 'launch' reason: 'It is the surest.' near_misses { plan {" +
      Ranked("c", 8, 9, 0.5) +
      "} reason: '8.16 % faster, but fits with a probability of 50 %' } warnings: 'careful'");
}

TEST(ExplainReportTest, SaysWhatToLaunchAndWhatIsFaster) {
  const std::string report = ExplainReport(Explained(), 200);
  EXPECT_THAT(report,
              HasSubstr("It takes 10.0 s a step, and fits with a probability of 97 %. It is "
                        "the one to launch. It is the surest. The fastest plan that is as "
                        "sure to fit is tp4 dp4 mb1"));
  EXPECT_THAT(report, HasSubstr("The fastest plan (first) and this plan (second)\n"));
  EXPECT_THAT(report, HasSubstr("8.16 % faster, but fits with a probability of 50 %\n"));
  EXPECT_THAT(report, HasSubstr("warning: careful\n"));
}

TEST(ExplainReportTest, SaysWhatToLaunchInstead) {
  v1::ExplainPlanResponse explained = Explained();
  explained.mutable_plan()->set_plan_digest("own");
  EXPECT_THAT(ExplainReport(explained, 200),
              AllOf(HasSubstr("The plan to launch is tp2 dp4 mb1"), Not(HasSubstr("the one to"))));
  explained = Explained();
  explained.set_recommendation("keep_yours");
  EXPECT_THAT(ExplainReport(explained, 200), HasSubstr(" Keep it. It is the surest."));
}

TEST(ExplainReportTest, LinesFitTheTerminal) {
  std::istringstream report(ExplainReport(Explained(), 60));
  for (std::string line; std::getline(report, line);) EXPECT_LE(Width(line), 60U) << line;
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
