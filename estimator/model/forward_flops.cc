#include "estimator/model/forward_flops.h"

#include <vector>

#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"

namespace meshwright {

double ForwardFlopsPerToken(const EstimatorProblem& problem) {
  // Uses the kernels of an undivided model; the fused attention kernel counts the causal half.
  Workload workload = problem.workload;
  workload.attention_kernel = AttentionKernel::kFlash2;
  ModelSpec model = problem.model;
  if (model.moe.has_value()) model.moe->imbalance_ratio = 1;
  const LayerSharding whole = {};
  const LayerContext context = {
      .model = model, .workload = workload, .profile = problem.profile, .sharding = whole};
  const auto flops = [](const LayerProgram& program) {
    double sum = 0;
    for (const Kernel& kernel : program.kernels) sum += kernel.flops.count;
    return sum;
  };
  const double head = 2.0 * workload.sequence_length * model.vocab_size * model.hidden_size;
  double sum = head;
  const LayerList layers(model);
  std::vector<double> by_kind;
  for (const LayerKind& kind : layers.kinds()) by_kind.push_back(flops(BuildLayer(context, kind)));
  for (int i = 0; i < model.layer_count; ++i) sum += by_kind[layers.IndexAt(i)];
  if (model.mtp_layer_count > 0) {
    const double h = model.hidden_size;
    sum += model.mtp_layer_count * (by_kind[layers.IndexAt(model.layer_count - 1)] + head +
                                    4.0 * workload.sequence_length * h * h);
  }
  return sum / workload.sequence_length;
}

}  // namespace meshwright
