#include "estimator/layer/parameters.h"

#include <gtest/gtest.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/layer_parameters.h"
#include "search_space/spec/model.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

const ModelSpec kModels[] = {Llama2_7b(), Llama2_70b(), Gpt3_175b(), Mixtral_8x7b(), DeepseekV3()};

// Returns the parameters of the norm before the output layer: its scale and, for a layer norm, its
// shift. ParameterCount counts them; the estimator's stages leave them out (h of 7 10^9 parameters
// in Llama-2-7B).
double FinalNorm(const ModelSpec& model) {
  return (model.norm == NormKind::kLayernorm ? 2.0 : 1.0) * model.hidden_size;
}

LayerKind FirstKind(const ModelSpec& model) { return LayerList(model).kinds().front(); }
LayerKind LastKind(const ModelSpec& model) { return LayerList(model).kinds().back(); }

class ParametersTest : public testing::TestWithParam<ModelSpec> {};

// Layers, vocabulary and final norm add up to the model.
TEST_P(ParametersTest, SumIsTheModel) {
  const ModelSpec& model = GetParam();
  double sum = FinalNorm(model);
  const LayerList layers(model);
  for (int i = 0; i < model.layer_count; ++i) {
    const LayerParameters layer = ParametersOf(model, layers.KindAt(i));
    sum += DenseParameters(layer, 1) + ExpertParameters(layer, 1, 1);
  }
  sum += (model.tied_embeddings ? 1.0 : 2.0) * model.vocab_size * model.hidden_size;
  EXPECT_DOUBLE_EQ(sum, static_cast<double>(ParameterCount(model, false)));
}

// The ranks of tensor and expert parallelism together hold once what these divide.
TEST_P(ParametersTest, DivisionLosesNothing) {
  const ModelSpec& model = GetParam();
  const LayerParameters layer = ParametersOf(model, LayerList(model).kinds().back());
  for (const int t : {1, 2, 4, 8}) {
    EXPECT_DOUBLE_EQ(t * DenseParameters(layer, t), layer.tensor_split + t * layer.replicated);
    EXPECT_DOUBLE_EQ(4 * t * ExpertParameters(layer, 4, t), layer.expert);
  }
}

// The devices of a pipeline hold the model once: nothing is replicated at t = d = 1. Each parameter
// has two bytes of weight; a tied output layer on a stage of its own holds a second copy.
TEST_P(ParametersTest, PipelineHoldsTheModelOnce) {
  const ModelSpec& model = GetParam();
  const OwnedProblem problem = PlainProblem(model, 1);
  for (const int p : {1, 2, 4}) {
    const Estimate estimate = FullOf(problem, {.pipeline_parallel = p});
    double bytes = 0;
    for (const StageMemory& stage : estimate.stage_memory) {
      bytes += Line(stage.breakdown, MemoryKind::kWeights);
    }
    const double copy = model.tied_embeddings && p > 1
                            ? static_cast<double>(model.vocab_size) * model.hidden_size
                            : 0;
    const double held = static_cast<double>(ParameterCount(model, false)) - FinalNorm(model) + copy;
    EXPECT_NEAR(bytes, 2 * held, p) << p << " stages";  // one rounding per stage
  }
}

INSTANTIATE_TEST_SUITE_P(All, ParametersTest, testing::ValuesIn(kModels), [](const auto& test) {
  std::string name = test.param.name;
  std::erase(name, '-');
  return name;
});

// Formula 1 with Llama-2-70B's shapes: h(q + 2u) + q h = 8192 * 10240 + 8192^2 = 150,994,944;
// 3 h f = 704,643,072; norms 2 h = 16,384.
TEST(Parameters, DenseLayerByHand) {
  const LayerParameters layer = ParametersOf(Llama2_70b(), FirstKind(Llama2_70b()));
  EXPECT_DOUBLE_EQ(layer.tensor_split, 150'994'944.0 + 704'643'072.0);
  EXPECT_DOUBLE_EQ(layer.replicated, 16'384);
  EXPECT_DOUBLE_EQ(layer.expert, 0);
}

// DeepSeek-V3's routed layer: 256 experts of 3 * 7168 * 2048 = 44,040,192; one shared expert beside
// the up-projections of the latents: 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168 =
// 171,966,464. Replicated: 7168 * 1536 + 7168 * 576 (down-projections), the router 7168 * 256, the
// norms 2 * 7168 + 1536 + 512.
TEST(Parameters, ExpertLayerByHand) {
  const LayerParameters layer = ParametersOf(DeepseekV3(), LastKind(DeepseekV3()));
  EXPECT_DOUBLE_EQ(layer.expert, 256 * 44'040'192.0);
  EXPECT_DOUBLE_EQ(layer.tensor_split, 171'966'464.0 + 44'040'192.0);
  EXPECT_DOUBLE_EQ(layer.replicated, 7168.0 * (1536 + 576 + 256) + 2 * 7168.0 + 1536.0 + 512.0);
}

// Experts share one shape, so a framework that keeps one gradient per shape keeps that of one
// expert.
TEST(Parameters, DistinctMatrices) {
  EXPECT_DOUBLE_EQ(DistinctMatrixElements(Llama2_70b(), FirstKind(Llama2_70b()), 8),
                   855'638'016.0 / 8);
  EXPECT_DOUBLE_EQ(DistinctMatrixElements(DeepseekV3(), LastKind(DeepseekV3()), 1),
                   171'966'464.0 + 2 * 44'040'192.0);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
