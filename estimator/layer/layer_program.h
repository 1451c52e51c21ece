#pragma once

#include <span>
#include <string>
#include <string_view>

#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// Everything that decides the kernels of one layer on one device.
struct LayerContext {
  const ModelSpec& model;
  const Workload& workload;
  const FrameworkProfile& profile;
  const LayerSharding& sharding;
};

// Builds one layer of a kind whose sizes are filled in (LayerList::kinds): forward and backward
// pass of one micro-batch on one device. Symbols of docs/cost_model.md: n tokens per rank, t, c, e,
// x, h, f, q = a g, u = k g.
LayerProgram BuildLayer(const LayerContext& context, const LayerKind& kind);

// Build the token embedding (first stage) and the final norm, output layer and loss (last stage).
LayerProgram BuildEmbedding(const LayerContext& context);
LayerProgram BuildHead(const LayerContext& context);

// Returns the bytes that one device keeps of a layer's input, the checkpoint of full recomputation.
Bytes LayerInputBytes(const LayerContext& context);

// Returns the tokens of one micro-batch on one rank: micro-batch x sequence / context parallel.
double TokensPerRank(const LayerContext& context);

// Returns the bytes of one element of a linear layer's input, as it is kept for the backward pass.
double KeptInputBytes(const LayerContext& context);

// Returns the vocabulary padded to 128 x tensor parallel (Megatron's tokenizer padding).
double PaddedVocabulary(const ModelSpec& model, int tensor_parallel);

// Returns the module that a framework calls by this name ("core_attn", "layernorm", "mlp", "moe",
// "moe_act", "mla_up_proj", "shared_experts"); 0 if there is none.
ModuleSet ModuleOf(std::string_view name);
ModuleSet ModulesOf(std::span<const std::string> names);
std::string AllowedModules();

// The pieces of BuildLayer append to `program`; attention, scans (linear attention and state
// spaces) and feed-forward each have their file.
void AppendAttention(const LayerContext& context, const LayerKind& kind, LayerProgram& program);
void AppendLinearAttention(const LayerContext& context, LayerProgram& program);
void AppendStateSpace(const LayerContext& context, LayerProgram& program);
void AppendDenseMlp(const LayerContext& context, double ffn_hidden_size, ModuleSet modules,
                    LayerProgram& program);
void AppendMoe(const LayerContext& context, LayerProgram& program);

// Returns the tokens that the busiest rank of experts computes, as a multiple of the mean. With a
// capacity factor, those above it are dropped. For models with experts only.
double BusiestRank(const LayerContext& context);

// Returns the program without the kernels and messages of routed experts. Its time does not depend
// on how the experts are divided.
LayerProgram WithoutExperts(LayerProgram program);
// Returns the forward FLOPs of the products of routed experts on one device, which are the same
// however the experts are divided.
Flops ExpertFlops(const LayerProgram& program);

// Used by all pieces.
Kernel Matmul(std::string_view name, const MatmulShape& shape, double stored_bytes,
              ModuleSet modules);
Kernel MemoryBound(std::string_view name, double bytes, double backward_bytes);
Kernel Kept(std::string_view name, double stored_bytes);  // no work, bytes for the backward pass
// Appends the messages before and after a tensor-parallel block whose gathered input is
// `input_width` wide.
void AppendTensorParallel(const LayerContext& context, double input_width, ModuleSet modules,
                          LayerProgram& program);
// `kept_bytes` is the size of one element of its output as it is kept.
void AppendNorm(const LayerContext& context, double width, double tokens, double kept_bytes,
                LayerProgram& program);

}  // namespace meshwright
