#pragma once

#include "search_space/spec/model.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The flags of Megatron-Core for layers that are not all alike.

// Refuses layers that pretrain_gpt.py cannot build. It takes a list of the layers with experts and
// of those with a window, and builds all other parts of the layers alike.
void RefuseMegatronLayers(const ModelSpec& model, FlagList& flags);

// Refuses what only later versions of Megatron-Core have flags for, if the question's framework is
// another one or an earlier one: windows in some layers only, sinks, biases of experts.
void RefuseLaterParts(const Problem& problem, FlagList& flags);

// Adds the window, and which layers have it.
void AddMegatronWindows(const ModelSpec& model, FlagList& flags);

// Adds the list of layers with experts, if some have none.
void AddMegatronExpertLayers(const ModelSpec& model, FlagList& flags);

}  // namespace meshwright
