#pragma once

#include <map>
#include <optional>
#include <string>

#include "search_space/base/units.h"

namespace meshwright {

// Options for running jobs on a site's cluster (docs/kubernetes.md).
struct KubernetesOptions {
  std::string server = {};      // "https://10.0.0.1:6443", as in a kubeconfig
  std::string token_file = {};  // token of a service account; empty: none is sent
  std::string ca_file = {};     // trusted certificates; empty: those of the system
  std::string name_space = {};
  std::string job_template = "job";  // a built-in template's name or a file's absolute path
  std::string image = {};            // must have bash
  std::string queue = {};            // Kueue's LocalQueue, or the template's own; empty: none
  std::string device_resource = {};  // "nvidia.com/gpu"; empty: no devices are requested
  std::optional<int> devices_per_node = {};  // absent: as many as processes
  // Volume that all nodes share and that the server sees under the same path. Empty: the template
  // mounts it.
  std::string volume_claim = {};
  std::string mount_path = {};
  std::map<std::string, std::string> labels = {};  // additional labels of objects and pods
  Seconds request_limit = Seconds(10);
  // Time that a job may wait for something that will probably not come, such as an image that
  // cannot be pulled.
  Seconds hopeless_limit = Seconds(60);
  // Time that a pod may take beyond the time limit to pull its image and to end.
  Seconds start_limit = Seconds(900);
  // Time that the pods of a cancelled job may remain; those of a lost node never go away.
  Seconds deletion_limit = Seconds(120);
};

}  // namespace meshwright
