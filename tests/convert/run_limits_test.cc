// Tests that figures that no run can have measured are refused wherever a question contains them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

constexpr char kQuestion[] = R"(
  "model": {"name": "tiny", "layer_count": 4, "hidden_size": 512, "ffn_hidden_size": 2048,
            "attention_head_count": 8, "vocab_size": 32000, "mlp": "gelu", "norm": "layernorm"},
  "workload": {"sequence_length": 1024, "global_batch_size": 64},
  "cluster": {"name": "c", "pools": [{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}]})";

std::vector<FieldViolation> MistakesOf(const std::string& measured) {
  v1::HistoryRow row;
  const std::string json =
      fmt::format(R"({{{}, "plan": {{}}, "outcome": "ok", {}}})", kQuestion, measured);
  std::vector<FieldViolation> found = ParseJson(json, "", row);
  const Knowledge knowledge = LoadKnowledge("").value();
  return FieldViolations(FromWire(row, knowledge, std::move(found)).status());
}

// The question's eight A100 take 1.98 ms at their nominal peak: 6 x 12.6e6 parameters without the
// embeddings x 65,536 tokens over 8 x 312e12. A time in another unit is below that or above a year.
TEST(RunLimitsTest, AStepThatCannotBe) {
  struct Case {
    const char* seconds;
    const char* mistake;
  };
  const Case cases[] = {
      {"0.0019", "0.0019; the devices' nominal peak allows no step below 0.0019"},
      {"1e-12", "1e-12; the devices' nominal peak allows no step below 0.0019"},
      {"31536001", "31536001; must be <= 31536000"},
      {"1e300", "1e+300; must be <= 31536000"},
      {"0", "0; must be > 0"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(MistakesOf(fmt::format(R"("step_time_seconds": {})", c.seconds)),
                ElementsAre(AllOf(Field(&FieldViolation::field, "step_time_seconds"),
                                  Field(&FieldViolation::description, HasSubstr(c.mistake)))));
  }
  EXPECT_THAT(MistakesOf(R"("step_time_seconds": 0.002)"), testing::IsEmpty());
}

TEST(RunLimitsTest, APeakThatCannotBe) {
  EXPECT_THAT(MistakesOf(R"("step_time_seconds": 1, "peak_memory_bytes": 1000000000000001)"),
              ElementsAre(FieldViolation{"peak_memory_bytes",
                                         "1000000000000001; must be <= 1000000000000000"}));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
