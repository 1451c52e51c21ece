#pragma once

#include <span>

#include "estimator/legality/legality.h"

namespace meshwright {

// The rules of groups of frameworks, one file each.
std::span<const LegalityRule> MegatronRules();  // Megatron-Core, Megatron-LM and what is built on it
std::span<const LegalityRule> PyTorchRules();   // torchtitan, FSDP and DeepSpeed
std::span<const LegalityRule> OtherRules();     // nanotron, PaddleNLP, MaxText; and any, by facts

}  // namespace meshwright
