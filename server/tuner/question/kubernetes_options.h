#pragma once

#include <map>
#include <optional>
#include <string>

#include "search_space/base/units.h"

namespace meshwright {

// Where and how a site runs jobs (docs/kubernetes.md).
struct KubernetesOptions {
  std::string server = {};      // "https://10.0.0.1:6443", as in a kubeconfig
  std::string token_file = {};  // of a service account; empty: sends none
  std::string ca_file = {};     // whose certificates are trusted; empty: those of the system
  std::string name_space = {};
  std::string job_template = "job";  // one of ours by its name, or the absolute path of a file
  std::string image = {};            // has bash
  std::string queue = {};            // Kueue's LocalQueue, or the template's own; empty: none
  std::string device_resource = {};  // "nvidia.com/gpu"; empty: asks for no devices
  std::optional<int> devices_per_node = {};  // absent: as many as processes
  // A volume that all nodes share and that the server sees under the same path; empty: the template
  // mounts it.
  std::string volume_claim = {};
  std::string mount_path = {};
  std::map<std::string, std::string> labels = {};  // further ones, of objects and pods
  Seconds request_limit = Seconds(10);
  // For which a job may wait for what looks as if it will not come (an image that cannot be
  // pulled).
  Seconds hopeless_limit = Seconds(60);
  // That a pod may take beyond the time limit, for its image and for its end.
  Seconds start_limit = Seconds(900);
  // For which the pods of a cancelled job may stay: those of a lost node never go.
  Seconds deletion_limit = Seconds(120);
};

}  // namespace meshwright
