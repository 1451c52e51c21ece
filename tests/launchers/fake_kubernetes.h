#pragma once

#include <string>

#include "server/process/descriptor.h"

namespace meshwright {

// An API server of Kubernetes with its controllers (fake_kubernetes.py) that lives as long as this
// object.
class FakeKubernetes {
 public:
  // Starts the server. `script` is the JSON that the server reads, "{}" if nothing is to go wrong.
  // Files go to `folder`.
  FakeKubernetes(const std::string& script, const std::string& folder);
  FakeKubernetes(const FakeKubernetes&) = delete;
  FakeKubernetes& operator=(const FakeKubernetes&) = delete;
  ~FakeKubernetes();

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  std::string url_;
  FileHandle input_;  // the server ends when this is closed
  int pid_ = 0;
};

}  // namespace meshwright
