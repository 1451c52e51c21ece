#include "estimator/layer/parameters.h"

namespace meshwright {

double DenseParameters(const LayerParameters& p, int tensor_parallel) {
  return p.tensor_split / tensor_parallel + p.replicated;
}

double ExpertParameters(const LayerParameters& p, int expert_parallel, int expert_tensor_parallel) {
  return p.expert / expert_parallel / expert_tensor_parallel;
}

double DistinctMatrixElements(const ModelSpec& m, const LayerKind& kind, int tensor_parallel) {
  const LayerParameters p = ParametersOf(m, kind);
  double elements = p.tensor_split;
  if (p.expert > 0) elements += p.expert / m.moe->expert_count;  // experts share one shape
  return elements / tensor_parallel;
}

}  // namespace meshwright
