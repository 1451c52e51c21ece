#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>

#include "estimator/layer/layer_split.h"
#include "estimator/legality/legality.h"
#include "search_space/base/all_equal.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

// The version that brought --pipeline-model-parallel-layout.
constexpr std::string_view kFirstWithLayouts = "0.13";

// Returns the layout "Et*3|t*4|...|t*3mL": embedding, decoder layers, multi-token prediction and
// loss of each virtual stage in the model's order (PipelineParallelLayerLayout in
// megatron/core/transformer/pipeline_parallel_layer_layout.py).
std::string Layout(const std::vector<int>& layers, int virtual_stages, int mtp_layers) {
  std::string text = "E";
  for (int chunk = 0; chunk < virtual_stages; ++chunk) {
    for (std::size_t stage = 0; stage < layers.size(); ++stage) {
      if (chunk > 0 || stage > 0) text += '|';
      const bool has_more = chunk < layers[stage] % virtual_stages;
      const int count = layers[stage] / virtual_stages + (has_more ? 1 : 0);
      if (count > 0) text += fmt::format("t*{}", count);
    }
  }
  if (mtp_layers > 0) text += fmt::format("m*{}", mtp_layers);
  return text + "L";
}

// Sizes of the first and last stage if only they differ. Megatron-Core divides the remaining layers
// evenly among the other stages.
struct EndStages {
  std::optional<int> first = {};
  std::optional<int> last = {};
};

std::optional<EndStages> FindEndStages(const std::vector<int>& layers) {
  if (layers.size() == 2) return EndStages{.first = layers.front()};
  const std::span middle = std::span(layers).subspan(1, layers.size() - 2);
  if (!AllEqual(middle)) return std::nullopt;
  EndStages ends;
  if (layers.front() != middle.front()) ends.first = layers.front();
  if (layers.back() != middle.front()) ends.last = layers.back();
  return ends;
}

// Embedding and loss, if Megatron-Core counts them as layers of the first and the last stage.
struct CountedEnds {
  bool embedding = false;
  bool loss = false;
};

// Returns which ends, counted as one layer each, make all stages equal and divisible into
// `virtual_stages`; nullopt if none do.
std::optional<CountedEnds> FindCountedEnds(std::vector<int> layers, int virtual_stages) {
  const int most = *std::ranges::max_element(layers);
  const CountedEnds ends = {.embedding = layers.front() < most, .loss = layers.back() < most};
  layers.front() += ends.embedding ? 1 : 0;
  layers.back() += ends.loss ? 1 : 0;
  if (!AllEqual(layers) || most % virtual_stages != 0) return std::nullopt;
  return ends;
}

// The layout also states the virtual stages, and excludes their flag.
void AddLayout(const Problem& problem, const ParallelPlan& plan, const std::vector<int>& layers,
               FlagList& flags) {
  flags.Add("--pipeline-model-parallel-layout",
            "'" + Layout(layers, plan.virtual_pipeline, problem.model.mtp_layer_count) + "'");
}

void AddUnevenLayers(const Problem& problem, const ParallelPlan& plan,
                     const std::vector<int>& layers, FlagList& flags) {
  const bool has_empty_stage = std::ranges::find(layers, 0) != layers.end();
  const auto ends = FindEndStages(layers);
  if (ends.has_value() && !has_empty_stage) {
    if (plan.virtual_pipeline > 1) {
      flags.Add("--num-virtual-stages-per-pipeline-rank", plan.virtual_pipeline);
    }
    if (ends->first.has_value()) flags.Add("--decoder-first-pipeline-num-layers", *ends->first);
    if (ends->last.has_value()) flags.Add("--decoder-last-pipeline-num-layers", *ends->last);
    return;
  }
  AddLayout(problem, plan, layers, flags);
}

void CheckSchedule(const ParallelPlan& plan, FlagList& flags) {
  if (plan.schedule != Schedule::k1f1b && plan.schedule != Schedule::kInterleaved1f1b) {
    flags.Refuse("plan.schedule", fmt::format("{}; Megatron-Core runs 1f1b and interleaved_1f1b",
                                              Word(plan.schedule)));
  }
}

// Names of the modules in Megatron-Core 0.14 (megatron/training/arguments.py, --recompute-modules).
constexpr std::array<std::string_view, 7> kModules = {
    "core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"};

void AddSelective(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  const auto& modules =
      plan.recompute.modules.empty() ? problem.profile.selective_modules : plan.recompute.modules;
  for (const std::string& module : modules) {
    if (std::ranges::find(kModules, module) == kModules.end()) {
      flags.Refuse("plan.recompute.modules",
                   fmt::format("{}; Megatron-Core has {}", module, fmt::join(kModules, ", ")));
    }
  }
  flags.Add("--recompute-granularity", "selective");
  flags.Add("--recompute-modules", fmt::format("{}", fmt::join(modules, " ")));
}

// Returns true if one n describes all stages. With "block" Megatron-Core recomputes the first n
// layers of every virtual stage, or all if it has fewer. A count that exceeds its stage's layers
// means all of them.
bool IsOneCount(const std::vector<int>& counts, const std::vector<int>& layers, int chunks,
                int per_chunk) {
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const int recomputed = std::min(counts[stage], layers[stage]);
    if (recomputed != chunks * std::min(per_chunk, layers[stage] / chunks)) return false;
  }
  return true;
}

bool MixesRecomputation(const ParallelPlan& plan) {
  return std::ranges::any_of(plan.recompute.selective_layer_counts, [](int c) { return c > 0; });
}

}  // namespace

std::vector<int> StageLayers(const Problem& problem, const ParallelPlan& plan) {
  return LayersPerStage(plan, problem.model, problem.profile);
}

void AddMegatronPipelineFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  CheckSchedule(plan, flags);
  flags.Add("--pipeline-model-parallel-size", plan.pipeline_parallel);
  if (plan.rank_order == RankOrder::kTpCpEpPpDp) flags.Add("--use-tp-pp-dp-mapping");
  const std::vector<int> layers = StageLayers(problem, plan);
  const bool divides =
      std::ranges::all_of(layers, [&](int count) { return count % plan.virtual_pipeline == 0; });
  const auto ends = divides ? std::nullopt : FindCountedEnds(layers, plan.virtual_pipeline);
  const bool has_layouts = problem.profile.name == "megatron-core" &&
                           !IsOlder(problem.workload.framework_version, kFirstWithLayouts);
  if (!divides && !ends.has_value() && !has_layouts) {
    flags.Refuse(
        "plan.virtual_pipeline",
        fmt::format("{} with [{}] layers per stage; Megatron-Core wants the virtual stages "
                    "of a stage to be equal before 0.13",
                    plan.virtual_pipeline, fmt::join(layers, ", ")));
    return;
  }
  if (ends.has_value()) {
    flags.Add("--num-virtual-stages-per-pipeline-rank", plan.virtual_pipeline);
    if (ends->embedding) flags.Add("--account-for-embedding-in-pipeline-split");
    if (ends->loss) flags.Add("--account-for-loss-in-pipeline-split");
  } else if (!divides) {
    AddLayout(problem, plan, layers, flags);
  } else if (!AllEqual(layers)) {
    AddUnevenLayers(problem, plan, layers, flags);
  } else if (plan.virtual_pipeline > 1) {
    flags.Add("--num-virtual-stages-per-pipeline-rank", plan.virtual_pipeline);
  }
  if (plan.virtual_pipeline > 1 && !problem.workload.overlap.pipeline_p2p) {
    flags.Add("--no-overlap-p2p-communication");
    if (plan.pipeline_parallel == 2) {
      flags.Refuse("workload.overlap.pipeline_p2p",
                   "false with two interleaved stages; Megatron-Core needs more than two");
    }
  }
}

void AddMegatronFullRecomputeFlags(const Problem& problem, const ParallelPlan& plan,
                                   FlagList& flags) {
  const std::vector<int> layers = StageLayers(problem, plan);
  const std::vector<int>& counts = plan.recompute.layer_counts;
  const bool is_every_layer = counts.empty() || counts == layers;
  const int chunks = plan.virtual_pipeline;
  const int most = is_every_layer ? 0 : *std::ranges::max_element(counts);
  if (!is_every_layer && !IsOneCount(counts, layers, chunks, most / chunks)) {
    flags.Refuse(
        "plan.recompute.layer_counts",
        fmt::format("[{}] with {} virtual stages each; Megatron-Core recomputes one number "
                    "of layers in every virtual stage",
                    fmt::join(counts, ", "), chunks));
    return;
  }
  flags.Add("--recompute-granularity", "full");
  flags.Add("--recompute-method", is_every_layer ? "uniform" : "block");
  flags.Add("--recompute-num-layers", is_every_layer ? 1 : most / chunks);
}

void AddMegatronRecomputeFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  const std::vector<int> layers = StageLayers(problem, plan);
  const std::vector<int>& counts = plan.recompute.layer_counts;
  if (MixesRecomputation(plan)) {
    flags.Refuse("plan.recompute.selective_layer_counts",
                 fmt::format("[{}]; Megatron-Core recomputes layers fully or selectively, not both",
                             fmt::join(plan.recompute.selective_layer_counts, ", ")));
    return;
  }
  const bool is_none = !counts.empty() && std::ranges::all_of(counts, [](int c) { return c == 0; });
  if (is_none) return;
  switch (plan.recompute.granularity) {
    case RecomputeGranularity::kNone:
      return;
    case RecomputeGranularity::kSelective:
      if (!counts.empty() && counts != layers) {
        flags.Refuse("plan.recompute.layer_counts",
                     fmt::format("[{}] with selective; Megatron-Core applies it to every layer",
                                 fmt::join(counts, ", ")));
      }
      AddSelective(problem, plan, flags);
      return;
    case RecomputeGranularity::kFull:
      AddMegatronFullRecomputeFlags(problem, plan, flags);
      return;
  }
}

}  // namespace meshwright
