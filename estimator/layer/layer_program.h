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

// What decides the kernels of one layer on one device.
struct LayerContext {
  const ModelSpec& model;
  const Workload& workload;
  const FrameworkProfile& profile;
  const LayerSharding& sharding;
};

// One transformer layer, forward and backward of one micro-batch on one device, with routed experts
// or without. Symbols of docs/cost_model.md: n tokens a rank, t, c, e, x, h, f, q = a g, u = k g.
LayerProgram BuildLayer(const LayerContext& context, bool is_moe);

// Token embedding (first stage) and final norm, output layer and loss (last stage).
LayerProgram BuildEmbedding(const LayerContext& context);
LayerProgram BuildHead(const LayerContext& context);

// Bytes that one device keeps of a layer's input, the checkpoint of full recomputation.
Bytes LayerInputBytes(const LayerContext& context);

// Tokens of one micro-batch on one rank: micro-batch x sequence / context parallel.
double TokensPerRank(const LayerContext& context);

// Bytes of one element of a linear layer's input, as it is kept for the backward pass.
double KeptInputBytes(const LayerContext& context);

// Vocabulary padded to 128 x tensor parallel (Megatron's tokenizer padding).
double PaddedVocabulary(const ModelSpec& model, int tensor_parallel);

// The module of a framework's name ("core_attn", "layernorm", "mlp", "moe", "moe_act",
// "mla_up_proj", "shared_experts"); 0 when it names none.
ModuleSet ModuleOf(std::string_view name);
ModuleSet ModulesOf(std::span<const std::string> names);
std::string AllowedModules();

// Pieces of BuildLayer, one file each. They append to `program`.
void AppendAttention(const LayerContext& context, LayerProgram& program);
void AppendDenseMlp(const LayerContext& context, double ffn_hidden_size, ModuleSet modules,
                    LayerProgram& program);
void AppendMoe(const LayerContext& context, LayerProgram& program);

// What is left without the kernels and messages of routed experts: nothing of its time depends on
// how they are shared out.
LayerProgram WithoutExperts(LayerProgram program);
// Forward FLOPs of the products of routed experts on one device, however they are shared out.
Flops ExpertFlops(const LayerProgram& program);

// Shared by the pieces.
Kernel Matmul(std::string_view name, const MatmulShape& shape, double stored_bytes,
              ModuleSet modules);
Kernel MemoryBound(std::string_view name, double bytes, double backward_bytes);
Kernel Kept(std::string_view name, double stored_bytes);  // no work, bytes for the backward pass
// What enters and leaves a tensor-parallel block whose gathered input is `input_width` wide.
void AppendTensorParallel(const LayerContext& context, double input_width, ModuleSet modules,
                          LayerProgram& program);
// `kept_bytes` an element of its output.
void AppendNorm(const LayerContext& context, double width, double tokens, double kept_bytes,
                LayerProgram& program);

}  // namespace meshwright
