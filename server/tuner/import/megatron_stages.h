#pragma once

#include <cstddef>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/tuner/import/import_request.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {

// Stages of a pipeline that follow one another, have one shape and lie on one pool.
struct StagesOnPool {
  std::size_t pool = 0;  // its place in the cluster
  int tensor = 1;
  int context = 1;
  int expert = 1;
  int data = 1;
  int stage_count = 1;
};

// Returns true if the file states FlagScale's meshes of several types of devices, and takes the
// settings of files that do not use them.
bool HasMeshes(SettingReader& settings);

// Takes FlagScale's meshes, and sets the degrees, the stages and the experts of the plan to those
// of the first mesh. Each type of device is a pool of the cluster: the one of that name, or else
// the only one whose chip has that name or a part of it ("A800"). Returns an empty list if the
// meshes are wrong or fit no pools.
std::vector<StagesOnPool> ReadMeshes(SettingReader& settings, const ReaderContext& context,
                                     ImportedJob& job);

// Places the stages of a plan of one shape on the pools: those that the job names, or else those
// of the cluster in its order, as flags name no pool. Returns an empty list if they do not fill the
// pools.
std::vector<StagesOnPool> PlaceOnPools(SettingReader& settings, const ReaderContext& context,
                                       ImportedJob& job);

// Turns the plan of the flat fields, which state the layers of each stage, into one that lists its
// stages.
void ListStages(SettingReader& settings, const std::vector<StagesOnPool>& placed,
                const std::vector<PoolOfCluster>& pools, PlanRequest& plan);

}  // namespace meshwright
