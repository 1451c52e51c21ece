#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search_space/spec/model.h"
#include "server/tuner/import/text/shell_script.h"

namespace meshwright {

// A pool of the cluster beside the file.
struct PoolOfCluster {
  std::string name = {};
  std::string chip = {};  // as the cluster states it: an id or another name
  int node_count = 0;
  int devices_per_node = 0;
};

// A file to import, and what is known from elsewhere.
struct ImportRequest {
  std::string file = {};  // its name, for its format and for messages
  std::string text = {};
  OpenFile open_file = {};  // files that it names, such as a DeepSpeed JSON
  std::map<std::string, std::string> variables = {};  // values of the script's variables
  std::string framework = {};                         // empty: what the file shows
  std::optional<ModelSpec> model = {};                // stated beside the file
  std::optional<int> devices = {};                    // of the cluster
  std::vector<PoolOfCluster> pools = {};  // of the cluster, if it states the sizes of all of them
  // Values that the file leaves to the training program, and that the caller states instead.
  std::optional<int> global_batch_size = {};
};

}  // namespace meshwright
