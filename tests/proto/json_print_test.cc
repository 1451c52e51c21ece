#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::util::MessageDifferencer;

v1::Search SampleSearch() {
  v1::Search search;
  search.set_space_count(9'007'199'254'740'993);  // 2^53 + 1, which no double can represent
  (*search.mutable_pruned_count_by_rule())["topology"] = 2;
  (*search.mutable_pruned_count_by_rule())["divisibility"] = 1;
  search.set_seconds(0.1);
  return search;
}

TEST(PrintJsonTest, FieldsInOrderOfDeclarationMapsByKeyZerosShown) {
  EXPECT_EQ(PrintJson(SampleSearch(), {}),
            R"({"space_count": 9007199254740993, )"
            R"("pruned_count_by_rule": {"divisibility": 1, "topology": 2}, )"
            R"("evaluated_count": 0, "seconds": 0.1, "complete": false, )"
            R"("optimality_gap_ratio": 0})");
}

TEST(PrintJsonTest, Multiline) {
  v1::Plan plan;
  plan.set_tensor_parallel(2);
  plan.mutable_recompute()->add_modules("core_attn");
  plan.add_layers_per_stage(20);
  plan.add_layers_per_stage(20);
  EXPECT_EQ(PrintJson(plan, {.multiline = true}),
            R"({
  "tensor_parallel": 2,
  "recompute": {
    "layer_counts": [],
    "modules": [
      "core_attn"
    ],
    "selective_layer_counts": []
  },
  "layers_per_stage": [20, 20],
  "stages": [],
  "pools": []
})");
}

TEST(PrintJsonTest, LeavesOutWhatIsNotStated) {
  v1::TuneResult result;
  EXPECT_EQ(PrintJson(result, {}),
            R"({"plans": [], "applied_defaults": [], "warnings": [], "trials": [], )"
            R"("pareto_front": [], "recommendation": "", "reason": "", "reasons": []})");
  v1::Overlap overlap;
  EXPECT_EQ(PrintJson(overlap, {}), "{}");
  overlap.set_tensor_parallel(false);
  EXPECT_EQ(PrintJson(overlap, {}), R"({"tensor_parallel": false})");
}

// Lists and maps with the option printed_if_stated came later than the answers that lack them.
TEST(PrintJsonTest, ListsThatCameLaterAreLeftOutWhileTheyAreEmpty) {
  v1::Cluster cluster;
  EXPECT_EQ(PrintJson(cluster, {}), R"({"pools": []})");
  cluster.add_pool_links()->set_from("a");
  EXPECT_EQ(PrintJson(cluster, {}), R"({"pools": [], "pool_links": [{"from": "a"}]})");
}

TEST(PrintJsonTest, EscapesText) {
  v1::CaseError error;
  error.set_reason("a\"b\\c\n\x01\xe2\x82\xac");
  EXPECT_EQ(PrintJson(error, {}),
            "{\"reason\": \"a\\\"b\\\\c\\n\\u0001\xe2\x82\xac\", "
            "\"message\": \"\", \"fields\": []}");
  // JSON allows these characters, but terminals obey them.
  error.set_reason("a\x7f\u009b1m\u00a0");
  EXPECT_EQ(PrintJson(error, {}),
            "{\"reason\": \"a\\u007f\\u009b1m\u00a0\", \"message\": \"\", \"fields\": []}");
}

TEST(PrintJsonTest, DoublesReadBackEqual) {
  for (const double value :
       {0.0, 0.1, 1.0 / 3, 25e9, 1e-5, 1e22, 5e-324, -2.5, std::numeric_limits<double>::max()}) {
    v1::Search search;
    search.set_seconds(value);
    v1::Search back;
    EXPECT_THAT(ParseJson(PrintJson(search, {}), "", back), testing::IsEmpty());
    EXPECT_EQ(back.seconds(), value);
  }
}

TEST(PrintJsonTest, ReadsBackEqual) {
  v1::TuneResult result;
  *result.mutable_search() = SampleSearch();
  v1::RankedPlan& ranked = *result.add_plans();
  ranked.mutable_plan()->add_stages()->set_pool("a");
  ranked.mutable_estimate()->add_peak_memory_bytes_by_stage(7);
  (*ranked.mutable_estimate()->mutable_breakdown_seconds())["matmul"] = 0.7;
  (*ranked.mutable_exports())["megatron-core"] = "--a 1 \\\n--b 2";
  for (const bool multiline : {false, true}) {
    v1::TuneResult back;
    EXPECT_THAT(ParseJson(PrintJson(result, {.multiline = multiline}), "", back),
                testing::IsEmpty());
    EXPECT_TRUE(MessageDifferencer::Equals(result, back));
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
