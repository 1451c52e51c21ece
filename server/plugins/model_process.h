#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/plugins/manifest.h"

namespace meshwright {

// A program to run, and how to confine it.
struct ProcessSpec {
  // The program and its arguments; the flag for the socket is added.
  std::vector<std::string> command = {};
  // the whole environment, with a few variables of ours
  std::map<std::string, std::string> environment = {};
  ModelLimits limits = {};
};

// Returns the command of a manifest: its program, or our host with its library.
absl::StatusOr<ProcessSpec> SpecOf(const ModelManifest& manifest);

// A running model with its own session and process group, namespaces where the kernel allows them
// (isolation()), limits, a cleaned environment, and a private folder with its socket. Everything
// that it started ends with it, and it ends with this process, however that ends. A thread of this
// object looks after it, since the kernel ends a child when the thread that made it ends. Safe from
// any thread.
class ModelProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ModelProcess>> Start(const ProcessSpec& spec);
  ~ModelProcess();  // calls Stop
  ModelProcess(const ModelProcess&) = delete;
  ModelProcess& operator=(const ModelProcess&) = delete;

  [[nodiscard]] const std::string& socket() const;  // its path
  [[nodiscard]] int pid() const;                    // the keeper's, an ancestor of all others
  // Returns, for example, "network=none processes=own memory=own ..."; empty until it began to run.
  [[nodiscard]] std::string isolation() const;
  [[nodiscard]] bool has_ended() const;
  // Returns true if it ends within `timeout`.
  [[nodiscard]] bool WaitForEnd(std::chrono::milliseconds timeout) const;
  // Returns "exit code 1" or "signal 11 (Segmentation fault)", for example; empty while it runs.
  [[nodiscard]] std::string how_it_ended() const;
  // Returns the last lines that it wrote, as clean text.
  [[nodiscard]] std::string log_tail() const;
  // Adds to a failure of a call how it ended and what it wrote.
  [[nodiscard]] absl::Status WithLastWords(const absl::Status& failure) const;
  // Returns the resident bytes of the keeper and all its descendants.
  [[nodiscard]] std::int64_t memory_in_use() const;
  // Waits for the socket. UNAVAILABLE with the log if the process ends first or the time is over;
  // CANCELLED.
  [[nodiscard]] absl::Status WaitForSocket(std::chrono::milliseconds timeout,
                                           const std::stop_token& cancel = {}) const;

  // Ends it and everything that it started, and waits until they have ended.
  void Stop();

 private:
  struct State;
  explicit ModelProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
