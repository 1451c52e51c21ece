#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {

// A job as a launch script or a configuration of a framework describes it.
struct ImportedJob {
  std::optional<ModelSpec> model = {};  // absent: the file names a model and does not state it
  // Facts of the model that the file leaves to something else, such as the vocabulary to the
  // tokenizer, each with the key that would state it: "vocab_size (--vocab-size)".
  std::vector<std::string> missing_of_model = {};
  WorkloadRequest workload = {};  // with the framework's name, and its version if the file says it
  // States every field that the framework has a setting for; data_parallel only if the file or the
  // cluster determines it.
  PlanRequest plan = {};
  std::optional<int> devices = {};      // processes of the job, if they are stated
  std::vector<std::string> notes = {};  // what a person should know of how the file was read
  std::vector<UnusedKey> unused = {};   // keys that change nothing, each with the reason
};

}  // namespace meshwright
