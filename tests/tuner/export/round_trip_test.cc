#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/status.h"
#include "search_space/import/hugging_face.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/import/import.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/setting_reader.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"
#include "tests/tuner/export/expressed_plan.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr int kPlans = MESHWRIGHT_RANDOM_PLANS;  // exported and read back, for each framework
constexpr int kMaxDraws = 400 * kPlans;

const Knowledge& KnownFacts() {
  static const Knowledge* const knowledge = new Knowledge(LoadKnowledge("").value());
  return *knowledge;
}

Problem ProblemFor(const std::string& framework, const ModelSpec& model) {
  const std::string profile =
      framework == "nemo" || framework == "megatron-bridge" ? "megatron-core" : framework;
  const Question question = {.model = model,
                             .workload = {.sequence_length = 4096,
                                          .global_batch_size = 128,
                                          .overlap = {.gradient_reduce = true,
                                                      .parameter_gather = true,
                                                      .pipeline_p2p = true},
                                          .framework_name = profile},
                             .cluster = {.name = "c",
                                         .pools = {{.name = "a",
                                                    .chip = "nvidia-h100-sxm5-80gb",
                                                    .node_count = 8,
                                                    .devices_per_node = 8}}}};
  auto problem = ResolveProblem(question, KnownFacts());
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *std::move(problem);
}

// Draws a value of each dimension in turn, among those that break no rule of the framework by then.
// Returns a plan that may be illegal.
ParallelPlan Draw(const Problem& problem, const SearchSpace& space, std::mt19937_64& random) {
  const EstimatorProblem view = ToEstimatorProblem(problem);
  ParallelPlan plan = space.Root();
  for (int i = 0; i < kDimensionCount; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    std::vector<int> values = space.Values(dimension, plan);
    std::erase_if(values, [&](int value) {
      ParallelPlan tried = plan;
      space.Set(dimension, value, tried);
      return BrokenRule(view, tried, dimension) != nullptr;
    });
    if (values.empty()) break;
    space.Set(dimension, values[random() % values.size()], plan);
  }
  return plan;
}

struct RoundTrip {
  std::string framework;
  // The fields for which plans are refused that the search may propose.
  std::set<std::string> refused = {};
  std::string recipe = {};  // the fields that the export replaces
};

// A recipe of another plan, in Megatron-Bridge and in NeMo. What an export does not state stays.
constexpr const char* kBridgeRecipe = R"(model.sequence_parallel: true
model.virtual_pipeline_model_parallel_size: 5
model.num_layers_in_first_pipeline_stage: 3
model.num_layers_in_last_pipeline_stage: 5
model.account_for_embedding_in_pipeline_split: true
model.account_for_loss_in_pipeline_split: true
model.pipeline_model_parallel_layout: Et*4|t*4L
model.overlap_p2p_comm: true
model.cp_comm_type: a2a
model.hierarchical_context_parallel_sizes: [2, 2]
model.expert_model_parallel_size: 4
model.expert_tensor_parallel_size: 2
model.recompute_granularity: full
model.recompute_method: block
model.recompute_num_layers: 2
model.recompute_modules: [mlp]
model.cpu_offloading: true
optimizer.optimizer_cpu_offload: true
optimizer.optimizer_offload_fraction: 0.5
optimizer.use_distributed_optimizer: true
ddp.use_distributed_optimizer: true
ddp.use_megatron_fsdp: true
ddp.data_parallel_sharding_strategy: optim_grads_params
ddp.num_distributed_optimizer_instances: 2
dist.use_tp_pp_dp_mapping: true
)";
constexpr const char* kNemoRecipe = R"(trainer.strategy.sequence_parallel=True \
trainer.strategy.virtual_pipeline_model_parallel_size=5 \
trainer.strategy.num_layers_in_first_pipeline_stage=3 \
trainer.strategy.num_layers_in_last_pipeline_stage=5 \
trainer.strategy.account_for_embedding_in_pipeline_split=True \
trainer.strategy.account_for_loss_in_pipeline_split=True \
trainer.strategy.pipeline_model_parallel_layout='Et*4|t*4L' \
model.config.overlap_p2p_comm=True \
model.config.cp_comm_type=a2a \
trainer.strategy.expert_model_parallel_size=4 \
trainer.strategy.expert_tensor_parallel_size=2 \
model.config.recompute_granularity=full \
model.config.recompute_method=block \
model.config.recompute_num_layers=2 \
model.config.recompute_modules='[mlp]' \
model.config.cpu_offloading=True \
optim.config.optimizer_cpu_offload=True \
optim.config.optimizer_offload_fraction=0.5 \
optim.config.use_distributed_optimizer=True \
trainer.strategy.ddp.use_distributed_optimizer=True \
trainer.strategy.num_distributed_optimizer_instances=2 \
trainer.strategy.use_tp_pp_dp_mapping=True \
)";

// Returns the import of an export, as a user who saves its files and starts its command has it: on
// top of a recipe, whose fields the command or the file replaces.
absl::StatusOr<ImportedJob> Import(const RoundTrip& trip, const LaunchConfig& config,
                                   const Problem& problem) {
  std::vector<ConfigFile> files = config.other_files;
  if (!config.file_name.empty()) files.push_back({config.file_name, trip.recipe + config.text});
  ImportRequest request = {.file = "run.sh",
                           .text = config.command,
                           .framework = trip.framework,
                           .model = problem.model,
                           .devices = static_cast<int>(DeviceCount(problem.cluster)),
                           .global_batch_size = problem.workload.global_batch_size};
  // Flags follow the command.
  if (config.file_name.empty()) request.text += " \\\n" + trip.recipe + config.text;
  request.open_file = [&files](const std::string& path) -> absl::StatusOr<std::string> {
    for (const ConfigFile& file : files) {
      if (file.name.ends_with(path) || path.ends_with(file.name)) return file.text;
    }
    return absl::NotFoundError(path);
  };
  return ImportJob(request);
}

void PrintTo(const RoundTrip& trip, std::ostream* out) { *out << trip.framework; }

class RoundTripTest : public testing::TestWithParam<RoundTrip> {
 protected:
  // Exports random legal plans of a model until `count` were read back.
  void Exchange(const ModelSpec& model, int count) {
    const std::string& framework = GetParam().framework;
    const Problem problem = ProblemFor(framework, model);
    const SearchSpace space = SpaceOf(problem);
    std::mt19937_64 random(7);
    int done = 0;
    for (int draw = 0; draw < kMaxDraws && done < count; ++draw) {
      const ParallelPlan plan = Draw(problem, space, random);
      const bool is_legal = ResolveLaunchedPlan(StatedPlan(plan), problem, "plan").ok() &&
                            CautionsAbout(ToEstimatorProblem(problem), plan).empty();
      if (!is_legal) continue;
      const auto config = ExportPlan(framework, problem, plan);
      if (!config.ok()) {
        CountRefused(config.status());
        continue;
      }
      ++done;
      const std::string shown = config->command + "\n" + config->text;
      const auto job = Import(GetParam(), *config, problem);
      ASSERT_TRUE(job.ok()) << job.status() << "\n" << shown;
      const auto back = ResolvePlan(job->plan, problem, "plan");
      ASSERT_TRUE(back.ok()) << back.status() << "\n" << shown;
      ASSERT_EQ(MakePlanKey(ExpressedPlan(back->plan, problem)).text,
                MakePlanKey(ExpressedPlan(plan, problem)).text)
          << shown;
      ASSERT_NO_FATAL_FAILURE(CompareRest(*job, problem));
      EXPECT_THAT(config->command, testing::Not(testing::IsEmpty()));
      EXPECT_THAT(config->left_out, testing::Not(testing::IsEmpty()));
    }
    EXPECT_EQ(done, count) << model.name;
  }

  // Every key of an export is known, and model and batch come back too.
  static void CompareRest(const ImportedJob& job, const Problem& problem) {
    for (const UnusedKey& key : job.unused) ASSERT_NE(key.reason, "") << key.key;
    if (job.model.has_value()) {
      ModelSpec model = problem.model;
      model.name = job.model->name;
      if (!job.missing_of_model.empty()) model.vocab_size = 0;  // the tokenizer's
      ASSERT_EQ(*job.model, model);
    }
    const auto& workload = job.workload;
    if (workload.sequence_length.has_value()) {
      ASSERT_EQ(*workload.sequence_length, problem.workload.sequence_length);
    }
    if (workload.global_batch_size.has_value()) {
      ASSERT_EQ(*workload.global_batch_size, problem.workload.global_batch_size);
    }
    if (workload.precision.has_value()) {
      ASSERT_EQ(*workload.precision, problem.workload.precision);
    }
  }

  void CountRefused(const absl::Status& status) {
    for (const FieldViolation& field : FieldViolations(status)) ++refused_[field.field];
    ++refused_plans_;
  }

  std::map<std::string, int> refused_;
  int refused_plans_ = 0;
};

// The files and the command of a plan say the whole plan: what only the list of the left out says
// is lost when the job is launched.
TEST_P(RoundTripTest, GivesThePlanBack) {
  const bool is_gpt = GetParam().framework == "megatron-deepspeed";
  const bool has_experts = !is_gpt && GetParam().framework != "nanotron";
  const int expert_plans = has_experts ? kPlans / 5 : 0;
  Exchange(is_gpt ? Gpt3_175b() : Llama2_7b(), kPlans - expert_plans);
  if (HasFatalFailure()) return;
  Exchange(Mixtral_8x7b(), expert_plans);
  std::set<std::string> fields;
  for (const auto& [field, count] : refused_) {
    fields.insert(field);
    RecordProperty(field, count);
  }
  RecordProperty("refused_plans", refused_plans_);
  EXPECT_EQ(fields, GetParam().refused) << refused_plans_ << " plans";
}

// Models whose layers frameworks build by flags of their own, by a block or by a recipe.
constexpr const char* kGptOss = R"({"model_type": "gpt_oss", "hidden_size": 2880,
    "intermediate_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4,
    "sliding_window": 128, "vocab_size": 201088, "attention_bias": true,
    "tie_word_embeddings": false})";
constexpr const char* kGemma2 = R"({"model_type": "gemma2", "hidden_size": 3584,
    "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 256, "sliding_window": 4096, "vocab_size": 256000})";
constexpr const char* kGemma3 = R"({"model_type": "gemma3_text", "hidden_size": 5376,
    "intermediate_size": 21504, "num_hidden_layers": 62, "num_attention_heads": 32,
    "num_key_value_heads": 16, "head_dim": 128, "query_pre_attn_scalar": 168,
    "sliding_window": 1024, "vocab_size": 262144})";

constexpr const char* kQwen2 = R"({"model_type": "qwen2", "hidden_size": 3584,
    "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "vocab_size": 152064})";
constexpr const char* kNemotron = R"({"model_type": "nemotron", "hidden_size": 4096,
    "intermediate_size": 16384, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 256000, "hidden_act": "relu2"})";

// Returns the models of these forms that a framework runs.
std::vector<const char*> FormsOf(const std::string& framework) {
  if (framework == "megatron-core") return {kGptOss, kQwen2, kNemotron};
  const bool is_megatron =
      framework == "megatron-lm" || framework == "flagscale" || framework == "mindspeed";
  if (is_megatron) return {kQwen2};
  if (framework == "torchtitan") return {kGptOss};
  const bool has_all = framework == "maxtext" || framework == "megatron-bridge" ||
                       framework == "nemo" || framework == "pytorch-fsdp";
  if (has_all) return {kGptOss, kGemma2, kGemma3};
  return {};
}

TEST_P(RoundTripTest, GivesModelsOfOtherFormsBack) {
  constexpr int kFewPlans = 20;
  for (const char* const config : FormsOf(GetParam().framework)) {
    SCOPED_TRACE(config);
    const auto imported = ImportHuggingFaceConfig(config, "m");
    ASSERT_TRUE(imported.ok()) << imported.status();
    Exchange(imported->model, kFewPlans);
    if (HasFatalFailure()) return;
  }
}

// Plans that the search proposes are refused only where a field of the workload is in the way, or
// in the words of another framework.
const RoundTrip kTrips[] = {
    {"megatron-core", {}},
    {"megatron-lm", {}},
    {"megatron-deepspeed", {}},
    {"flagscale", {}},
    {"mindspeed", {}},
    {"megatron-bridge", {}},
    {"nemo", {"plan.context_parallel_kind", "plan.zero_stage"}},
    {"megatron-bridge", {}, kBridgeRecipe},
    {"nemo", {"plan.context_parallel_kind", "plan.zero_stage"}, kNemoRecipe},
    {"nanotron", {}},
    {"paddle", {"workload.overlap.gradient_reduce", "workload.overlap.parameter_gather"}},
    {"maxtext", {}},
    {"torchtitan", {}},
    {"pytorch-fsdp", {}},
    {"deepspeed", {}},
};

INSTANTIATE_TEST_SUITE_P(All, RoundTripTest, testing::ValuesIn(kTrips), [](const auto& c) {
  std::string name = c.param.framework + (c.param.recipe.empty() ? "" : "_over_a_recipe");
  for (char& letter : name) {
    if (letter == '-') letter = '_';
  }
  return name;
});

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
