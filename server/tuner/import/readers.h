#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/setting_reader.h"
#include "server/tuner/import/text/launch_command.h"

namespace meshwright {

// The things that a reader knows beside the settings.
struct ReaderContext {
  std::optional<ModelSpec> model = {};        // stated beside the file; wins over that of the file
  std::optional<int> devices = {};            // processes of the job
  std::optional<int> global_batch_size = {};  // stated beside the file
  std::vector<PoolOfCluster> pools = {};      // of the cluster, if their sizes are known
  bool names_pools = false;  // the job names them, so that they are its own and in its order
};

// Each takes the settings of its framework and fills model, workload and plan of the job. The keys
// of Megatron and of what is built on it are flags without dashes ("tensor-model-parallel-size").
void ReadMegatron(SettingReader& settings, const ReaderContext& context, ImportedJob& job);
void ReadTorchtitan(SettingReader& settings, const ReaderContext& context, ImportedJob& job);
void ReadDeepSpeed(SettingReader& settings, const ReaderContext& context, ImportedJob& job);
void ReadAccelerate(SettingReader& settings, const ReaderContext& context, ImportedJob& job);
void ReadMaxText(SettingReader& settings, const ReaderContext& context, ImportedJob& job);
void ReadNanotron(SettingReader& settings, const ReaderContext& context, ImportedJob& job);
void ReadPaddle(SettingReader& settings, const ReaderContext& context, ImportedJob& job);

// The parts of ReadMegatron.
void ReadMegatronModel(SettingReader& settings, ImportedJob& job);
void ReadMegatronWorkload(SettingReader& settings, ImportedJob& job);
void ReadMegatronPlan(SettingReader& settings, const ReaderContext& context, ImportedJob& job);

// Returns the decoder layers of each part of a layout such as "Et*3|(tt|)*6m|L", in the order of
// the model; nullopt for a text that is none.
std::optional<std::vector<int>> LayoutLayers(std::string_view layout);

// Keys that no reader of the framework takes and that are known.
std::span<const OtherKey> MegatronOtherKeys();
std::span<const OtherKey> OtherKeysOf(std::string_view framework);

// Returns the model that counts: the one stated beside the file, or that of the file.
const ModelSpec* ModelOf(const ReaderContext& context, const ImportedJob& job);

// Checks that the devices are a multiple of tensor x pipeline x context parallelism, and sets
// data_parallel to the quotient. A stated data_parallel must agree. `keys` name the degrees.
void SetDataParallel(SettingReader& settings, const ReaderContext& context, std::string_view keys,
                     ImportedJob& job);

// Sets the recomputation of every layer, as counts of each stage are not stated.
RecomputePlan EveryLayer();

}  // namespace meshwright
