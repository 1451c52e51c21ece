#pragma once

#include <sys/types.h>

#include <string>

namespace meshwright {

// An API server of Kubernetes with its controllers (fake_kubernetes.py), which lives as long as
// this.
class FakeKubernetes {
 public:
  // `script` is what the server reads: JSON, "{}" where nothing goes wrong. Files go to `folder`.
  FakeKubernetes(const std::string& script, const std::string& folder);
  FakeKubernetes(const FakeKubernetes&) = delete;
  FakeKubernetes& operator=(const FakeKubernetes&) = delete;
  ~FakeKubernetes();

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  std::string url_;
  int input_ = 0;  // the server ends when this is closed
  pid_t pid_ = 0;
};

}  // namespace meshwright
