#pragma once

#include "search_space/spec/plan.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// One function for each framework. It refuses every field of the plan, the workload and the model
// that the framework cannot express; if it refuses any, the result is not used. Plans with stages
// on several pools reach only those exporters that can write them (export.cc), and state in their
// flat fields too what their stages say (WithFlatFields).

// Returns flags of pretrain_gpt.py of Megatron-LM with Megatron-Core 0.12 and later. Names, choices
// and mutual exclusions are those of megatron/training/arguments.py (add_argument and
// validate_args).
LaunchConfig ExportMegatronCore(const Problem& problem, const ParallelPlan& plan,
                                Refusals& refusals);

// Returns a job configuration of torchtitan 0.2 (torchtitan/config/job_config.py).
LaunchConfig ExportTorchtitan(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns a configuration of `accelerate launch` for PyTorch FSDP: accelerate 1.10 and later, with
// FSDP 2.
LaunchConfig ExportPyTorchFsdp(const Problem& problem, const ParallelPlan& plan,
                               Refusals& refusals);

// Returns a configuration of deepspeed.initialize (deepspeed/runtime/config.py).
LaunchConfig ExportDeepSpeed(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns flags of pretrain_gpt.py of Megatron-LM of the years 2021 to 2024, before Megatron-Core
// had numbers of its own (megatron/arguments.py).
LaunchConfig ExportMegatronLm(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns flags of pretrain_gpt.py of Megatron-DeepSpeed of BigScience (2022) and its file for
// DeepSpeed.
LaunchConfig ExportMegatronDeepSpeed(const Problem& problem, const ParallelPlan& plan,
                                     Refusals& refusals);

// Returns the `train` part of a configuration of FlagScale (flagscale/train), and the experiment
// that uses it.
LaunchConfig ExportFlagScale(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns flags of pretrain_gpt.py of MindSpeed-LLM (mindspeed_llm/training/arguments.py).
LaunchConfig ExportMindSpeed(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns a configuration of nanotron (src/nanotron/config).
LaunchConfig ExportNanotron(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns the arguments of run_pretrain.py of PaddleNLP (paddlenlp/trainer/training_args.py).
LaunchConfig ExportPaddle(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Returns a configuration of MaxText, on top of its base.yml.
LaunchConfig ExportMaxText(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

// Return the fields of a recipe of Megatron-Bridge and of NeMo 2, which run Megatron-Core.
LaunchConfig ExportMegatronBridge(const Problem& problem, const ParallelPlan& plan,
                                  Refusals& refusals);
LaunchConfig ExportNemo(const Problem& problem, const ParallelPlan& plan, Refusals& refusals);

}  // namespace meshwright
