#include "pruner/rules/memory_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "estimator/layer/layer_split.h"
#include "estimator/model/memory.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// A plan with the derived values that the order compares.
struct Subject {
  ParallelPlan plan = {};
  std::vector<int> layers = {};      // number of layers of each stage
  std::vector<int> recomputed = {};  // number of fully recomputed layers of each stage
  int micro_batches = 1;
  int shards = 1;         // ranks that share the dense states
  int expert_shards = 1;  // ranks that share an expert's states
  [[nodiscard]] double InFlightAt(int stage) const {
    return InFlight(plan.schedule, stage, plan.pipeline_parallel, plan.virtual_pipeline,
                    micro_batches);
  }
};

Subject SubjectOf(const ParallelPlan& plan, const EstimatorProblem& problem) {
  Subject s = {.plan = plan, .layers = LayersPerStage(plan, problem.model, problem.profile)};
  s.recomputed.assign(s.layers.size(), 0);
  if (plan.recompute.granularity == RecomputeGranularity::kFull) {
    const std::vector<int>& counts = plan.recompute.layer_counts;
    for (std::size_t i = 0; i < s.layers.size(); ++i) {
      const int asked = counts.empty() ? s.layers[i] : counts[std::min(i, counts.size() - 1)];
      s.recomputed[i] = std::min(asked, s.layers[i]);
    }
  }
  s.micro_batches = MicroBatchCount(plan, problem.workload.global_batch_size);
  const int copies = LayoutOf(plan.schedule, plan.pipeline_parallel, 1).directions();
  const int ranks = copies * plan.data_parallel * plan.context_parallel;
  s.shards = plan.zero_group_size > 0 ? plan.zero_group_size : ranks;
  s.expert_shards = std::max(
      1, ranks * plan.tensor_parallel / (plan.expert_parallel * plan.expert_tensor_parallel));
  return s;
}

bool IsStraight(Schedule schedule) {
  return HasFixedOrder(schedule) || schedule == Schedule::kZbH1;
}

// Compares one dimension after the other. Each function returns true if `more` needs at least as
// much memory, all else being equal, and then records whether it needs more.
class Comparison {
 public:
  Comparison(const Subject& more, const Subject& less, const EstimatorProblem& problem)
      : a_(more), b_(less), x_(more.plan), y_(less.plan), problem_(problem) {}

  bool Holds() {
    return HaveOneShape() && KeepsAsManyTokens() && RecomputesNoMore() && ShardsStatesNoFiner() &&
           Ascends("sequence_parallel", x_.sequence_parallel, y_.sequence_parallel) &&
           Ascends("expert_parallel", x_.expert_parallel, y_.expert_parallel) &&
           Ascends("optimizer_offload_ratio", x_.optimizer_offload_ratio,
                   y_.optimizer_offload_ratio) &&
           Ascends("activation_offload_ratio", x_.activation_offload_ratio,
                   y_.activation_offload_ratio);
  }

  std::vector<std::string> TakeReasons() { return std::move(reasons_); }

 private:
  template <typename T>
  void Note(std::string_view dimension, const T& own, const T& other) {
    if (own != other) reasons_.push_back(fmt::format("{} {} instead of {}", dimension, own, other));
  }

  // Compares dimensions in which a larger value saves memory.
  template <typename T>
  bool Ascends(std::string_view dimension, const T& own, const T& other) {
    Note(dimension, own, other);
    return own <= other;
  }

  // Returns true if both plans divide the model in the same way. If one has fewer layers on a rank
  // and the other divides more in another dimension, the model's sizes decide which needs more:
  // tensor parallelism does not divide norms and routers, and stages do not divide vocabularies.
  [[nodiscard]] bool HaveOneShape() const {
    const bool is_one_layout =
        x_.schedule == y_.schedule || (IsStraight(x_.schedule) && IsStraight(y_.schedule));
    return is_one_layout && x_.stages.empty() && y_.stages.empty() &&
           x_.tensor_parallel == y_.tensor_parallel &&
           x_.pipeline_parallel == y_.pipeline_parallel &&
           x_.expert_tensor_parallel == y_.expert_tensor_parallel && a_.layers == b_.layers;
  }

  // Compares the tokens in one micro-batch and those in flight on each stage. An exchange of heads
  // keeps up to 2 widths in addition to at least 10; half of the tokens outweighs that.
  bool KeepsAsManyTokens() {
    if (x_.micro_batch_size < y_.micro_batch_size) return false;
    const bool has_same_context = x_.context_parallel == y_.context_parallel;
    if (!has_same_context && 2 * x_.context_parallel > y_.context_parallel) return false;
    const bool has_same_kind = x_.context_parallel_kind == y_.context_parallel_kind;
    if (has_same_context && x_.context_parallel > 1 && !has_same_kind) return false;
    // The logits of the previous micro-batch, if there is one, are still in memory.
    const bool keeps_logits = problem_.profile.logit_bytes_between_micro_batches > 0;
    if (keeps_logits && a_.micro_batches == 1 && b_.micro_batches > 1) return false;
    const bool exchanges_more =
        !has_same_context && ExchangesHeads(y_) &&
        !(x_.context_parallel_kind == ContextParallelKind::kUlysses && x_.context_parallel > 1);
    for (int stage = 0; stage < x_.pipeline_parallel; ++stage) {
      const double least = (exchanges_more ? 2 : 1) * TokensAt(b_, x_, stage);
      if (TokensAt(a_, y_, stage) < least) return false;
    }
    Note("micro_batch_size", x_.micro_batch_size, y_.micro_batch_size);
    Note("context_parallel", x_.context_parallel, y_.context_parallel);
    Note("schedule", Word(x_.schedule), Word(y_.schedule));
    Note("virtual_pipeline", x_.virtual_pipeline, y_.virtual_pipeline);
    return true;
  }

  static bool ExchangesHeads(const ParallelPlan& plan) {
    return plan.context_parallel_kind == ContextParallelKind::kUlysses ||
           plan.context_parallel_kind == ContextParallelKind::kHybrid;
  }

  // Returns the tokens in flight, times the other plan's context parallelism.
  static double TokensAt(const Subject& own, const ParallelPlan& other, int stage) {
    return own.InFlightAt(stage) * own.plan.micro_batch_size * other.context_parallel;
  }

  // A plan without recomputation is not compared with one that fully recomputes some layers,
  // because the first such layer needs room for its working set; the model decides. A layer keeps
  // at least three times its input, so recomputing all of two or more layers outweighs the working
  // set of one.
  bool RecomputesNoMore() {
    const RecomputePlan& own = x_.recompute;
    const RecomputePlan& other = y_.recompute;
    if (own == other) return true;
    // The model decides these too.
    if (!own.selective_layer_counts.empty() || !other.selective_layer_counts.empty()) return false;
    Note("recompute", Word(own.granularity), Word(other.granularity));
    if (own.granularity == RecomputeGranularity::kNone) {
      return other.granularity == RecomputeGranularity::kSelective ? other.layer_counts.empty()
                                                                   : RecomputesAll(b_);
    }
    if (own.granularity != RecomputeGranularity::kFull || other.granularity != own.granularity) {
      return false;
    }
    for (std::size_t i = 0; i < a_.recomputed.size(); ++i) {
      const int layers = a_.recomputed[i];
      if (layers != b_.recomputed[i] && (layers == 0 || layers > b_.recomputed[i])) return false;
    }
    if (a_.recomputed != b_.recomputed) {
      reasons_.push_back(fmt::format("{} instead of {} recomputed layers by stage",
                                     fmt::join(a_.recomputed, " "), fmt::join(b_.recomputed, " ")));
    }
    return true;
  }

  static bool RecomputesAll(const Subject& s) {
    for (std::size_t i = 0; i < s.layers.size(); ++i) {
      const double kept = s.InFlightAt(static_cast<int>(i)) * s.layers[i];
      if (s.recomputed[i] != s.layers[i] || (s.layers[i] > 0 && kept < 2)) return false;
    }
    return true;
  }

  // ZeRO-3 also holds gathered layers, ZeRO-2 also holds one layer's 16-bit gradients, and sharded
  // copies come with ZeRO-1. A finer stage saves memory if two or more ranks share the states.
  bool ShardsStatesNoFiner() {
    Note("zero_stage", x_.zero_stage, y_.zero_stage);
    if (x_.zero_stage > y_.zero_stage) return false;
    if (x_.zero_stage > 0 && a_.shards > b_.shards) return false;
    if (x_.zero_stage > 0) Note("states sharded over", a_.shards, b_.shards);
    if (x_.zero_stage == y_.zero_stage) {
      Note("whole_weights_ratio", x_.whole_weights_ratio, y_.whole_weights_ratio);
      return x_.whole_weights_ratio >= y_.whole_weights_ratio;
    }
    const bool has_experts = problem_.model.moe.has_value();
    if (y_.zero_stage > 2 || b_.shards < 2 || (has_experts && b_.expert_shards < 2)) return false;
    const StateBytes bytes = BytesPerParameter(problem_.workload, problem_.profile);
    return bytes.sharded_copies <= bytes.optimizer &&
           bytes.autograd / problem_.profile.allocator_efficiency <=
               (bytes.gradient + bytes.autograd) / 2;
  }

  const Subject& a_;
  const Subject& b_;
  const ParallelPlan& x_;
  const ParallelPlan& y_;
  const EstimatorProblem& problem_;
  std::vector<std::string> reasons_;
};

}  // namespace

std::optional<std::vector<std::string>> NeedsAtLeast(const ParallelPlan& plan,
                                                     const ParallelPlan& other,
                                                     const EstimatorProblem& problem) {
  if (plan.tensor_parallel != other.tensor_parallel ||
      plan.pipeline_parallel != other.pipeline_parallel) {
    return std::nullopt;  // true of most pairs; spares the rest of the work
  }
  const Subject more = SubjectOf(plan, problem);
  const Subject less = SubjectOf(other, problem);
  Comparison comparison(more, less, problem);
  if (!comparison.Holds()) return std::nullopt;
  return comparison.TakeReasons();
}

}  // namespace meshwright
