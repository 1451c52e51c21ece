#include "server/tuner/search/recipes.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "estimator/legality/legality.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

constexpr double kMaxSizeRatio = 4.0 / 3;
constexpr int kMaxDeviceRatio = 2;
constexpr int kMaxExpertRatio = 2;

// Megatron-Bridge and NeMo run Megatron-Core.
constexpr std::string_view kCore = "megatron-core flagscale";

// Facts of public recipes; none is a result of this program.
constexpr Recipe kRecipes[] = {
    {.frameworks = kCore,
     .model = "Nemotron-3 5B (GPT)",
     .parameters = 5,
     .least_devices = 8,
     .most_devices = 256,
     .sequence_length = 2048,
     .micro_batch = 4,
     .source = "NeMo: examples of GPT-3 5B on A100"},
    {.frameworks = kCore,
     .model = "Llama 3 8B",
     .parameters = 8,
     .least_devices = 8,
     .most_devices = 2048,
     .sequence_length = 8192,
     .context = 2,
     .source = "NVIDIA DGX Cloud benchmarking: llama3-8b"},
    {.frameworks = kCore,
     .model = "Nemotron-4 15B",
     .parameters = 15,
     .least_devices = 16,
     .most_devices = 2048,
     .sequence_length = 4096,
     .tensor = 2,
     .micro_batch = 2,
     .source = "NVIDIA DGX Cloud benchmarking: nemotron4-15b"},
    {.frameworks = kCore,
     .model = "Llama 3 70B",
     .parameters = 70,
     .least_devices = 64,
     .most_devices = 2048,
     .sequence_length = 8192,
     .tensor = 4,
     .pipeline = 4,
     .virtual_stages = 5,
     .context = 2,
     .source = "NeMo performance summary: Llama 3 70B on H100"},
    {.frameworks = kCore,
     .model = "Llama 3.1 405B",
     .parameters = 405,
     .least_devices = 512,
     .most_devices = 2048,
     .sequence_length = 8192,
     .tensor = 8,
     .pipeline = 8,
     .virtual_stages = 8,
     .context = 2,
     .counts_ends = true,
     .source = "NVIDIA DGX Cloud benchmarking: llama3.1-405b"},
    {.frameworks = kCore,
     .model = "Qwen3 30B-A3B",
     .parameters = 30.5,
     .experts = 128,
     .least_devices = 16,
     .most_devices = 16,
     .sequence_length = 4096,
     .spread_experts = 16,
     .source = "Megatron-Bridge: recipes of qwen3-30b-a3b"},
    {.frameworks = kCore,
     .model = "Moonlight 16B-A3B",
     .parameters = 16,
     .experts = 64,
     .least_devices = 16,
     .most_devices = 16,
     .sequence_length = 4096,
     .spread_experts = 8,
     .micro_batch = 2,
     .source = "Megatron-Bridge: recipes of moonlight-16b-a3b"},
    {.frameworks = kCore,
     .model = "Mixtral 8x7B",
     .parameters = 46.7,
     .experts = 8,
     .least_devices = 64,
     .most_devices = 64,
     .sequence_length = 8192,
     .pipeline = 4,
     .virtual_stages = 8,
     .spread_experts = 8,
     .source = "NeMo 2.0: recipes/mixtral_8x7b.py"},
    {.frameworks = kCore,
     .model = "Mixtral 8x22B",
     .parameters = 141,
     .experts = 8,
     .least_devices = 128,
     .most_devices = 128,
     .sequence_length = 4096,
     .tensor = 2,
     .pipeline = 4,
     .virtual_stages = 14,
     .context = 2,
     .spread_experts = 8,
     .source = "NeMo 2.0: recipes/mixtral_8x22b.py"},
    {.frameworks = kCore,
     .model = "Qwen3 235B-A22B",
     .parameters = 235,
     .experts = 128,
     .least_devices = 256,
     .most_devices = 256,
     .sequence_length = 4096,
     .tensor = 2,
     .pipeline = 8,
     .virtual_stages = 4,
     .spread_experts = 32,
     .counts_ends = true,
     .source = "Megatron-Bridge: performance recipes of qwen3-235b-a22b on H100"},
    {.frameworks = kCore,
     .model = "DeepSeek-V3",
     .parameters = 671,
     .experts = 256,
     .least_devices = 512,
     .most_devices = 1024,
     .sequence_length = 4096,
     .tensor = 2,
     .pipeline = 8,
     .spread_experts = 64,
     .source = "NVIDIA DGX Cloud benchmarking: deepseek-v3"},
    {.frameworks = "mindspeed",
     .model = "Llama 2 7B",
     .parameters = 7,
     .least_devices = 8,
     .most_devices = 8,
     .sequence_length = 4096,
     .pipeline = 2,
     .source = "MindSpeed-LLM: examples/mcore/llama2"},
    {.frameworks = "mindspeed",
     .model = "Yi 34B",
     .parameters = 34,
     .least_devices = 16,
     .most_devices = 32,
     .sequence_length = 4096,
     .tensor = 8,
     .pipeline = 2,
     .micro_batch = 2,
     .zero_stage = 0,
     .source = "MindSpeed-LLM: examples/mcore/yi"},
    {.frameworks = "mindspeed",
     .model = "Llama 3 70B",
     .parameters = 70,
     .least_devices = 32,
     .most_devices = 64,
     .sequence_length = 8192,
     .tensor = 8,
     .pipeline = 4,
     .zero_stage = 0,
     .source = "MindSpeed-LLM: examples/mcore/llama3"},
    // The two layers without work with which it fills 96 stand for the ends of the model here. Its
    // three virtual stages need them, so they are left out.
    {.frameworks = "mindspeed",
     .model = "Qwen3 235B-A22B",
     .parameters = 235,
     .experts = 128,
     .least_devices = 256,
     .most_devices = 256,
     .sequence_length = 4096,
     .tensor = 2,
     .pipeline = 4,
     .spread_experts = 32,
     .counts_ends = true,
     .source = "MindSpeed-LLM: examples/mcore/qwen3_moe/pretrain_qwen3_235b_a22b_4k_A3_ptd.sh"},
    {.frameworks = "maxtext",
     .model = "DeepSeek-V3",
     .parameters = 671,
     .experts = 256,
     .least_devices = 256,
     .most_devices = 256,
     .sequence_length = 8192,
     .spread_experts = 256,
     .micro_batch = 4,
     .zero_stage = 3,
     .recomputes_layers = true,
     .source = "MaxText: benchmarks/maxtext_v5p_model_configs.py, deepseek_v3_ep_256_v5p_512"},
    {.frameworks = "torchtitan",
     .model = "Llama 3 8B",
     .parameters = 8,
     .least_devices = 8,
     .most_devices = 128,
     .sequence_length = 8192,
     .zero_stage = 3,
     .source = "torchtitan: train_configs/llama3_8b.toml"},
    {.frameworks = "torchtitan",
     .model = "Llama 3 70B",
     .parameters = 70,
     .least_devices = 64,
     .most_devices = 512,
     .sequence_length = 8192,
     .tensor = 8,
     .micro_batch = 8,
     .zero_stage = 3,
     .recomputes_layers = true,
     .source = "torchtitan: train_configs/llama3_70b.toml"},
    {.frameworks = "torchtitan",
     .model = "Llama 3.1 405B",
     .parameters = 405,
     .least_devices = 128,
     .most_devices = 512,
     .sequence_length = 8192,
     .tensor = 8,
     .micro_batch = 2,
     .zero_stage = 3,
     .recomputes_layers = true,
     .source = "torchtitan: train_configs/llama3_405b.toml"},
};

// Returns how far the sizes are apart, as the logarithm of their ratio; nullopt if too far.
std::optional<double> DistanceTo(const Recipe& recipe, const Problem& problem) {
  const ModelSpec& model = problem.model;
  const int experts = model.moe.has_value() ? model.moe->expert_count : 0;
  if (!IsListed(problem.workload.framework_name, recipe.frameworks) ||
      (recipe.experts > 0) != (experts > 0)) {
    return std::nullopt;
  }
  if (experts > kMaxExpertRatio * recipe.experts || recipe.experts > kMaxExpertRatio * experts) {
    return std::nullopt;
  }
  const int devices = DeviceCount(problem.cluster);
  if (kMaxDeviceRatio * devices < recipe.least_devices ||
      devices > kMaxDeviceRatio * recipe.most_devices) {
    return std::nullopt;
  }
  const double size = static_cast<double>(ParameterCount(model, false)) / 1e9;
  const double distance = std::abs(std::log(size / recipe.parameters));
  if (distance > std::log(kMaxSizeRatio)) return std::nullopt;
  return distance;
}

}  // namespace

const Recipe* NearestRecipe(const Problem& problem) {
  const Recipe* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Recipe& recipe : kRecipes) {
    const std::optional<double> distance = DistanceTo(recipe, problem);
    if (!distance.has_value() || *distance >= least) continue;
    nearest = &recipe;
    least = *distance;
  }
  return nearest;
}

std::optional<ParallelPlan> PlanOf(const Recipe& recipe, const Problem& problem) {
  const bool is_shorter = problem.workload.sequence_length < recipe.sequence_length;
  const int context = is_shorter ? 1 : recipe.context;
  const int shared = recipe.tensor * recipe.pipeline * context;
  const int devices = DeviceCount(problem.cluster);
  if (devices % shared != 0) return std::nullopt;
  ParallelPlan plan = {.tensor_parallel = recipe.tensor,
                       .sequence_parallel = recipe.tensor > 1,
                       .pipeline_parallel = recipe.pipeline,
                       .virtual_pipeline = recipe.virtual_stages,
                       .data_parallel = devices / shared,
                       .context_parallel = context,
                       .context_parallel_kind = problem.profile.context_parallel_kinds.front(),
                       .expert_parallel = recipe.spread_experts,
                       .micro_batch_size = recipe.micro_batch,
                       .zero_stage = recipe.zero_stage,
                       .rank_order = problem.profile.rank_orders.front()};
  const int counted = problem.model.layer_count + 2;
  if (recipe.counts_ends && counted % recipe.pipeline == 0) {
    plan.layers_per_stage.assign(static_cast<std::size_t>(recipe.pipeline),
                                 counted / recipe.pipeline);
    --plan.layers_per_stage.front();
    --plan.layers_per_stage.back();
  }
  if (recipe.recomputes_layers) plan.recompute.granularity = RecomputeGranularity::kFull;
  if (recipe.virtual_stages > 1) plan.schedule = Schedule::kInterleaved1f1b;
  return plan;
}

}  // namespace meshwright
