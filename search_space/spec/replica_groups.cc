#include "search_space/spec/replica_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

class GroupChecker {
 public:
  GroupChecker(const ParallelPlan& plan, const ModelSpec& model, std::string_view prefix)
      : plan_(plan), model_(model), prefix_(prefix) {}

  std::vector<FieldViolation> Check(int global_batch_size) {
    CheckPlan();
    CheckSamples(global_batch_size);
    for (std::size_t g = 0; g < plan_.replica_groups.size(); ++g) {
      CheckGroup(g);
      CheckIsFirst(g);
    }
    if (violations_.empty()) CheckTensorDegrees();
    return std::move(violations_);
  }

 private:
  template <typename... Args>
  void Add(std::string_view field, fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back({.field = fmt::format("{}.{}", prefix_, field),
                           .description = fmt::format(format, std::forward<Args>(args)...)});
  }

  // Checks the fields that all groups share.
  void CheckPlan() {
    if (!plan_.stages.empty()) {
      Add("stages", "stated; must be absent beside replica_groups, which have theirs");
    }
    if (!plan_.pools.empty()) {
      Add("pools", "stated; must be absent beside replica_groups, whose stages name their pools");
    }
    if (!plan_.layers_per_stage.empty()) {
      Add("layers_per_stage",
          "stated; must be absent beside replica_groups, whose stages hold them");
    }
    if (plan_.schedule != Schedule::k1f1b && plan_.schedule != Schedule::kGpipe) {
      Add("schedule", "\"{}\"; replicas that differ run 1f1b or gpipe", Word(plan_.schedule));
    }
    // Gradients and weights that are exchanged in every micro-batch need equal numbers of them.
    if (plan_.zero_stage > 1) {
      Add("zero_stage",
          "{}; replicas that differ exchange gradients once a step, so it must be 0 or 1",
          plan_.zero_stage);
    }
    if (plan_.virtual_pipeline > 1) {
      Add("virtual_pipeline", "{}; replicas that differ have no virtual stages",
          plan_.virtual_pipeline);
    }
    if (plan_.rank_order != RankOrder::kTpCpEpDpPp) {
      Add("rank_order", "{}; stages that name their pools run {}", Word(plan_.rank_order),
          Word(RankOrder::kTpCpEpDpPp));
    }
    if (plan_.activation_offload_ratio > 0) {
      Add("activation_offload_ratio",
          "{}; replicas that differ keep their activations, so it must "
          "be 0",
          plan_.activation_offload_ratio);
    }
    if (plan_.zero_group_size != 0) {
      Add("zero_group_size",
          "{}; replicas that differ share their states all together, so it must "
          "be 0",
          plan_.zero_group_size);
    }
  }

  void CheckSamples(int global_batch_size) {
    std::int64_t samples = 0;
    for (const ReplicaGroup& group : plan_.replica_groups) {
      if (group.stages.empty()) return;  // reported with the group
      // Each factor is at most 10^8; beyond the largest batch the sum does not matter.
      const std::int64_t replica =
          std::int64_t{group.micro_batch_count} * group.stages.front().micro_batch_size;
      samples += replica > global_batch_size ? replica : replica * group.replica_count;
    }
    if (samples != global_batch_size) {
      Add("replica_groups",
          "run {} sequences in a step, the sum of replica_count x micro_batch_count x "
          "micro_batch_size; the global batch has {}",
          samples, global_batch_size);
    }
  }

  void CheckGroup(std::size_t g) {
    const std::vector<StagePlan>& stages = plan_.replica_groups[g].stages;
    const std::string at = fmt::format("replica_groups[{}].", g);
    if (stages.empty()) {
      Add(at + "stages", "empty; must have at least one stage");
      return;
    }
    std::int64_t layers = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const StagePlan& stage = stages[i];
      const std::string at_stage = fmt::format("{}stages[{}].", at, i);
      layers += stage.layer_count;
      if (stage.data_parallel != 1) {
        Add(at_stage + "data_parallel", "{}; must be 1, because replica_count counts the replicas",
            stage.data_parallel);
      }
      if (stage.micro_batch_size != stages.front().micro_batch_size) {
        Add(at_stage + "micro_batch_size", "{}; must be that of the replica's first stage, {}",
            stage.micro_batch_size, stages.front().micro_batch_size);
      }
      if (model_.moe.has_value() &&
          plan_.expert_parallel * plan_.expert_tensor_parallel != stage.tensor_parallel) {
        Add(at_stage + "tensor_parallel",
            "{}; replicas that differ keep their experts to themselves, so expert x expert_tensor "
            "= "
            "{} must be the same",
            stage.tensor_parallel, plan_.expert_parallel * plan_.expert_tensor_parallel);
      }
    }
    if (layers != model_.layer_count) {
      Add(at + "stages", "hold {} layers; the model has {}", layers, model_.layer_count);
    }
    if (model_.tied_embeddings && stages.front().tensor_parallel != stages.back().tensor_parallel) {
      Add(fmt::format("{}stages[{}].tensor_parallel", at, stages.size() - 1),
          "{}; tied embeddings need that of the first stage, {}", stages.back().tensor_parallel,
          stages.front().tensor_parallel);
    }
  }

  // Checks that no group before `g` has the same replicas, which would be one group.
  void CheckIsFirst(std::size_t g) {
    const ReplicaGroup& group = plan_.replica_groups[g];
    for (std::size_t i = 0; i < g; ++i) {
      const ReplicaGroup& other = plan_.replica_groups[i];
      if (other.stages != group.stages || other.micro_batch_count != group.micro_batch_count) {
        continue;
      }
      Add(fmt::format("replica_groups[{}]", g),
          "the replicas are those of replica_groups[{}]; add up replica_count", i);
      return;
    }
  }

  // Checks that each layer has one degree of tensor parallelism. The layers of every group are
  // those of the model.
  void CheckTensorDegrees() {
    const std::vector<StagePlan>& first = plan_.replica_groups.front().stages;
    for (std::size_t g = 1; g < plan_.replica_groups.size(); ++g) {
      const std::vector<StagePlan>& own = plan_.replica_groups[g].stages;
      std::size_t i = 0;
      int first_layers = first.front().layer_count;  // up to the end of first[i]
      int layer = 0;
      for (std::size_t j = 0; j < own.size(); ++j) {
        const int end = layer + own[j].layer_count;
        while (layer < end) {
          while (first_layers <= layer) first_layers += first[++i].layer_count;
          if (own[j].tensor_parallel != first[i].tensor_parallel) {
            Add(fmt::format("replica_groups[{}].stages[{}].tensor_parallel", g, j),
                "{}; layer {} has tensor parallelism {} in replica_groups[0].stages[{}], and a "
                "layer "
                "has the same in all replicas, whose gradients are added up part by part",
                own[j].tensor_parallel, layer, first[i].tensor_parallel, i);
            break;
          }
          layer = std::min(end, first_layers);
        }
        layer = end;
      }
    }
  }

  const ParallelPlan& plan_;
  const ModelSpec& model_;
  std::string_view prefix_;
  std::vector<FieldViolation> violations_;
};

}  // namespace

std::vector<FieldViolation> CheckReplicaGroups(const ParallelPlan& plan, const ModelSpec& model,
                                               int global_batch_size, std::string_view prefix) {
  return GroupChecker(plan, model, prefix).Check(global_batch_size);
}

}  // namespace meshwright
