#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/imported_job.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Nodes of 8 A800 and of 16 BI-V150.
std::vector<PoolOfCluster> TwoPools() {
  return {{.name = "nv", .chip = "nvidia-a800-sxm4-80gb", .node_count = 2, .devices_per_node = 8},
          {.name = "ix", .chip = "iluvatar-bi-v150", .node_count = 2, .devices_per_node = 16}};
}

// The parts of a file that the cases change. Llama 2 7B has 32 layers.
struct Meshes {
  std::string sizes = "[8, 1, 1, 2, 1, 4, 1, 1, 4, 2]";
  std::string types = "[A800, ix]";
  std::string split = "[12, 10, 10]";
  std::string stages = "3";
  std::string more = "";  // lines of `system`
};

absl::StatusOr<ImportedJob> Import(const Meshes& meshes,
                                   std::vector<PoolOfCluster> pools = TwoPools()) {
  return ImportJob(
      {.file = "train.yaml",
       .text = "system:\n  pipeline_model_parallel_size: " + meshes.stages + "\n" + meshes.more +
               "  sequence_parallel: true\n" +
               "  hetero:\n    enable_hetero: true\n    hetero_process_meshes: " + meshes.sizes +
               "\n    hetero_device_types: " + meshes.types +
               "\n    hetero_pipeline_layer_split: " + meshes.split +
               "\nmodel:\n  micro_batch_size: 2\n  global_batch_size: 64\n  seq_length: 4096\n",
       .model = Llama2_7b(),
       .pools = std::move(pools)});
}

// 2 x 2 sequences on the first stage are 4 x 1 on the others.
TEST(MeshImportTest, MeshesOfFlagScale) {
  const auto job = Import({});
  ASSERT_TRUE(job.ok()) << job.status();
  const StagePlan first = {.pool = "nv",
                           .node_count = 2,
                           .tensor_parallel = 8,
                           .data_parallel = 2,
                           .layer_count = 12,
                           .micro_batch_size = 2};
  const StagePlan other = {.pool = "ix",
                           .node_count = 1,
                           .tensor_parallel = 4,
                           .data_parallel = 4,
                           .layer_count = 10,
                           .micro_batch_size = 1};
  EXPECT_THAT(job->plan.stages, ElementsAre(first, other, other));
  EXPECT_EQ(job->plan.sequence_parallel, true);
  EXPECT_EQ(job->devices, 48);
}

// FlagScale's published configuration for Iluvatar has two stages in each node.
TEST(MeshImportTest, StagesThatArePartsOfNodes) {
  const auto job = Import({.sizes = "[4, 1, 1, 2, 1, 4, 1, 1, 2, 2]", .split = "[12, 10, 10]"});
  ASSERT_TRUE(job.ok()) << job.status();
  const StagePlan first = {.pool = "nv",
                           .node_count = 1,
                           .tensor_parallel = 4,
                           .data_parallel = 2,
                           .layer_count = 12,
                           .micro_batch_size = 2};
  const StagePlan other = {.pool = "ix",
                           .node_count = 1,
                           .tensor_parallel = 4,
                           .data_parallel = 2,
                           .layer_count = 10,
                           .micro_batch_size = 2,
                           .device_count = 8};
  EXPECT_THAT(job->plan.stages, ElementsAre(first, other, other));
  EXPECT_EQ(job->devices, 24);
}

// Rows of 16 micro-batches of 4 sequences. A row may stand for several stages.
TEST(MeshImportTest, RecomputationOfStages) {
  const auto job =
      Import({.more = "  recompute_granularity: full\n  recompute_method: block\n"
                      "  recompute_num_layers_per_stage_micro_batch: [[1, 16, 0], [2, 16, 3]]\n"});
  ASSERT_TRUE(job.ok()) << job.status();
  const RecomputePlan three = {.granularity = RecomputeGranularity::kFull, .layer_counts = {3}};
  EXPECT_EQ(job->plan.stages[0].recompute, RecomputePlan{});
  EXPECT_EQ(job->plan.stages[1].recompute, three);
  EXPECT_EQ(job->plan.stages[2].recompute, three);
}

struct Mistake {
  const char* name;
  Meshes meshes;
  const char* message;
};

const Mistake kMistakes[] = {
    {"Rows", {.sizes = "[8, 1, 2, 1, 4]"}, "from.hetero-process-meshes = [8, 1, 2, 1, 4]; must be"},
    {"UnknownType",
     {.types = "[A800, B150]"},
     "from.hetero-device-types = B150; must be the name of a pool, or name the chip of one pool "
     "only: nv (nvidia-a800-sxm4-80gb), ix (iluvatar-bi-v150)"},
    {"PartOfAWord", {.types = "[A80, ix]"}, "from.hetero-device-types = A80; must be"},
    {"OnePoolTwice",
     {.types = "[ix, BI-V150]"},
     "from.hetero-device-types = ix and BI-V150; both are pool ix"},
    {"NodeAndAHalf",
     {.sizes = "[4, 1, 1, 3, 1, 4, 1, 1, 4, 2]"},
     "from.hetero-process-meshes = a stage of 12 devices on pool nv; must be whole nodes of 8 "
     "devices, or one of equal parts of a node"},
    {"AcrossNodes",
     {.sizes = "[2, 1, 1, 2, 1, 8, 1, 1, 1, 2]", .types = "[nv, nv]"},
     "from.hetero-process-meshes = a stage of 8 devices on pool nv; must be whole nodes of 8"},
    {"TooManyDevices",
     {.sizes = "[8, 1, 1, 2, 1, 4, 1, 1, 4, 3]", .split = "[8, 8, 8, 8]", .stages = "4"},
     "from.hetero-process-meshes = 3 stages of 16 devices; pool ix has 32"},
    {"Batches",
     {.sizes = "[8, 1, 1, 1, 1, 4, 1, 1, 4, 2]"},
     "from.hetero-process-meshes = data parallelism of 4; must divide that of the first mesh x "
     "micro-batch-size = 2"},
    {"Stages", {.stages = "2"}, "from.pipeline-model-parallel-size = 2; the meshes have 3 stages"},
    {"Layers",
     {.split = "[12, 10, 11]"},
     "from.hetero-pipeline-layer-split = [12, 10, 11]; must be the 32 layers of the model on 3 "
     "stages"},
    {"Experts",
     {.sizes = "[8, 1, 2, 2, 1, 4, 1, 1, 4, 2]"},
     "from.hetero-process-meshes = expert parallelism [2, 1]; a plan has one size"},
    {"VirtualStages",
     {.more = "  num_layers_per_virtual_pipeline_stage: 2\n"},
     "from.num-layers-per-virtual-pipeline-stage = 2; FlagScale has meshes without it"},
    {"RowsOfRecomputation",
     {.more = "  recompute_num_layers_per_stage_micro_batch: [[1, 16, 0], [1, 16, 3]]\n"},
     "from.recompute-num-layers-per-stage-micro-batch = rows of 2 stages; the plan has 3"},
};

class MixedImportTest : public testing::TestWithParam<Mistake> {};

TEST_P(MixedImportTest, NamesTheMistake) {
  const auto job = Import(GetParam().meshes);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, MixedImportTest, testing::ValuesIn(kMistakes),
                         [](const auto& c) { return c.param.name; });

TEST(MeshImportTest, MeshesNeedTheClustersPools) {
  EXPECT_THAT(std::string(Import({}, {}).status().message()),
              HasSubstr("from.enable-hetero = true; needs a cluster whose pools state node_count"));
}

absl::StatusOr<ImportedJob> ImportFlags(const std::string& stages) {
  return ImportJob({.file = "args.txt",
                    .text = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
                            "--seq-length 4096 --tensor-model-parallel-size 8 "
                            "--pipeline-model-parallel-size " +
                            stages + " --micro-batch-size 1 --global-batch-size 48",
                    .model = Llama2_7b(),
                    .devices = 48,
                    .pools = TwoPools()});
}

// Flags of Megatron name no pool. Stages have 48 / 3 = 16 devices: two nodes of nv or one of ix.
TEST(MeshImportTest, PlacesStagesInTheClustersOrder) {
  const auto job = ImportFlags("3 --decoder-first-pipeline-num-layers 12");
  ASSERT_TRUE(job.ok()) << job.status();
  const StagePlan first = {.pool = "nv",
                           .node_count = 2,
                           .tensor_parallel = 8,
                           .data_parallel = 2,
                           .layer_count = 12,
                           .micro_batch_size = 1};
  StagePlan other = first;
  other.pool = "ix";
  other.node_count = 1;
  other.layer_count = 10;
  EXPECT_THAT(job->plan.stages, ElementsAre(first, other, other));
  EXPECT_THAT(job->notes, Contains(HasSubstr("names no pools; its stages are read in the order of "
                                             "the cluster's pools: 1 on nv, 2 on ix")));
}

// A command of an export names its pools. Their order is not that of the cluster.
TEST(MeshImportTest, PlacesStagesOnTheNamedPools) {
  const auto import_from = [](const std::string& pools) {
    return ImportJob({.file = "launch.sh",
                      .text = "MESHWRIGHT_POOLS=" + pools +
                              " torchrun --nproc-per-node $DEVICES pretrain_gpt.py --num-layers 32 "
                              "--hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
                              "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 3 "
                              "--decoder-last-pipeline-num-layers 12 --micro-batch-size 1 "
                              "--global-batch-size 48",
                      .model = Llama2_7b(),
                      .devices = 48,
                      .pools = TwoPools()});
  };
  const auto job = import_from("ix,nv");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->plan.stages, ElementsAre(testing::Field(&StagePlan::pool, "ix"),
                                            testing::Field(&StagePlan::pool, "ix"),
                                            testing::Field(&StagePlan::pool, "nv")));
  EXPECT_EQ(job->plan.stages[2].layer_count, 12);
  EXPECT_THAT(std::string(import_from("ix,other").status().message()),
              HasSubstr("from.MESHWRIGHT_POOLS = other; no pool of the cluster has this name"));
}

// 48 / 2 = 24 devices are three nodes of nv, which has two.
TEST(MeshImportTest, RefusesStagesThatFillNoPools) {
  EXPECT_THAT(std::string(ImportFlags("2").status().message()),
              HasSubstr("from.pipeline-model-parallel-size = 2; stages of 24 devices do not fill "
                        "the 2 pools of the cluster with whole nodes"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
