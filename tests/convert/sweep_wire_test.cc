#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"
#include "tests/convert/full_samples.h"
#include "tests/rpc/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Knowledge& Known() {
  static const Knowledge kKnowledge = LoadKnowledge("").value();
  return kKnowledge;
}

v1::SweepRequest Asked() {
  v1::SweepRequest request;
  *request.mutable_question() = SmallQuestion();
  return request;
}

// Reads the whole request as the service does.
absl::StatusOr<SweepRange> Range(const v1::SweepRequest& request) {
  ASSIGN_OR_RETURN(const ResolvedStudy study, FromWire(request.question(), Known()));
  return FromWire(request, study.request, Known());
}

std::vector<std::string> FieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(status)) fields.push_back(violation.field);
  return fields;
}

TEST(SweepRangeTest, AsksForTheClusterAloneByDefault) {
  const SweepRange range = Range(Asked()).value();
  ASSERT_EQ(range.clusters.size(), 1u);
  const int own = Asked().question().cluster().pools(0).node_count();
  EXPECT_THAT(range.clusters[0].node_counts, ElementsAre(own));
  EXPECT_THAT(range.free_memory_ratios, ElementsAre(0));
}

TEST(SweepRangeTest, ALimitOfDaysAsksForShares) {
  v1::SweepRequest request = Asked();
  request.mutable_question()->mutable_cluster()->mutable_pools(0)->set_node_count(4);
  request.mutable_question()->mutable_run()->set_token_count(1e9);
  EXPECT_THAT(Range(request)->clusters[0].node_counts, ElementsAre(4));
  request.mutable_question()->mutable_run()->set_max_days(3);
  EXPECT_THAT(Range(request)->clusters[0].node_counts, ElementsAre(1, 2, 3, 4));
  request.add_node_counts(2);
  EXPECT_THAT(Range(request)->clusters[0].node_counts, ElementsAre(2));
}

TEST(SweepRangeTest, DeviceCountsAreNodesOfEachCluster) {
  v1::SweepRequest request = Asked();
  request.mutable_question()->mutable_cluster()->mutable_pools(0)->set_devices_per_node(8);
  *request.add_clusters() = request.question().cluster();
  request.mutable_clusters(0)->mutable_pools(0)->set_devices_per_node(4);
  request.add_device_counts(8);
  request.add_device_counts(16);
  const SweepRange range = Range(request).value();
  EXPECT_THAT(range.clusters[0].node_counts, ElementsAre(1, 2));
  EXPECT_THAT(range.clusters[1].node_counts, ElementsAre(2, 4));

  request.set_device_counts(0, 12);
  const absl::Status refused = Range(request).status();
  EXPECT_THAT(FieldsOf(refused), ElementsAre("device_counts[0]"));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("12; must be a multiple of the 8 devices of a node"));
}

TEST(SweepRangeTest, EveryMistakeIsNamed) {
  v1::SweepRequest request = Asked();
  request.add_node_counts(1);
  request.add_device_counts(8);
  EXPECT_THAT(FieldsOf(Range(request).status()), ElementsAre("device_counts"));
  request.clear_device_counts();
  for (int i = 0; i < 2; ++i) *request.add_clusters() = request.question().cluster();
  request.mutable_clusters(1)->mutable_pools(0)->set_chip("none-such");
  EXPECT_THAT(FieldsOf(Range(request).status()), ElementsAre("clusters[1].pools[0].chip"));
  for (int i = 0; i < 20; ++i) *request.add_clusters() = request.question().cluster();
  EXPECT_THAT(FieldsOf(Range(request).status()), ElementsAre("clusters"));
}

TEST(TrainingRunTest, IsReadAndWrittenWhole) {
  v1::TuneRequest request = SmallQuestion();
  v1::TrainingRun& run = *request.mutable_run();
  run.set_token_count(2e12);
  run.set_max_days(30);
  run.add_device_hour_prices()->set_price(2);
  run.add_device_hour_prices()->set_price(3);
  run.mutable_device_hour_prices(1)->set_chip("nvidia-h100-sxm5-80gb");
  const StudyRequest read = FromWire(request, Known())->request;
  EXPECT_TRUE(MessageDifferencer::Equals(ToWire(read).run(), run));
}

TEST(TrainingRunTest, EveryMistakeIsNamed) {
  v1::TuneRequest request = SmallQuestion();
  v1::TrainingRun& run = *request.mutable_run();
  run.set_max_days(-1);
  run.add_device_hour_prices()->set_chip("none-such");
  EXPECT_THAT(FieldsOf(FromWire(request, Known()).status()),
              ElementsAre("run.token_count", "run.device_hour_prices[0].price",
                          "run.device_hour_prices[0].chip", "run.max_days"));
}

TEST(SweepAnswerTest, EveryFieldIsSet) {
  RankedPlan plan = {.plan = FullPlan(), .run = FullRunCost()};
  const Sweep sweep = {.points = {{.cluster_index = 1,
                                   .cluster_name = "c",
                                   .chip = "chip",
                                   .device_count = 8,
                                   .free_memory_ratio = 0.25,
                                   .best = plan,
                                   .launch = plan,
                                   .device_seconds_per_token = 0.5,
                                   .is_on_front = true}},
                       .applied_defaults = {{.field = "f", .value = "v", .source = "s"}},
                       .warnings = {"w"},
                       .recommended = 0,
                       .reason = "because"};
  v1::SweepResponse wire = ToWire(sweep);
  EXPECT_TRUE(wire.has_recommended_index());
  EXPECT_EQ(wire.points(0).launch().run().device_hours(), 384);
  for (auto* ranked :
       {wire.mutable_points(0)->mutable_best(), wire.mutable_points(0)->mutable_launch()}) {
    EXPECT_THAT(UnsetFields(ranked->run()), IsEmpty());
  }
  std::vector<std::string> unset = UnsetFields(wire);
  std::erase_if(unset, [](const std::string& field) {
    return !field.starts_with("meshwright.v1.Sweep");  // the plans are tested elsewhere
  });
  EXPECT_THAT(unset, IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
