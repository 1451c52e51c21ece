#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/plugins/manifest.h"

namespace meshwright {

// What is run and how it is shut in.
struct ProcessSpec {
  // Program and arguments; the socket's flag is added.
  std::vector<std::string> command = {};
  std::map<std::string, std::string> environment = {};  // all of it, with a few of ours
  ModelLimits limits = {};
};

// The command of a manifest: its program, or our host with its library.
absl::StatusOr<ProcessSpec> SpecOf(const ModelManifest& manifest);

// A running model: its own session and process group, namespaces where the kernel allows them
// (isolation()), limits, a cleaned environment, a private folder with its socket. All that it
// started ends with it, and it ends with this process however that ends. A thread of this object
// looks after it: the kernel ends a child when the thread that made it ends. Use from any thread.
class ModelProcess {
 public:
  static absl::StatusOr<std::unique_ptr<ModelProcess>> Start(const ProcessSpec& spec);
  ~ModelProcess();  // Stop
  ModelProcess(const ModelProcess&) = delete;
  ModelProcess& operator=(const ModelProcess&) = delete;

  [[nodiscard]] const std::string& socket() const;  // path
  [[nodiscard]] int pid() const;                    // of the keeper, which all else is below
  // "network=none processes=own memory=own ..."; empty until it began to run.
  [[nodiscard]] std::string isolation() const;
  [[nodiscard]] bool has_ended() const;
  // Whether it has ended by then.
  [[nodiscard]] bool WaitForEnd(std::chrono::milliseconds timeout) const;
  // "exit code 1", "signal 11 (Segmentation fault)"; empty while it runs.
  [[nodiscard]] std::string how_it_ended() const;
  // The last lines that it wrote, as clean text.
  [[nodiscard]] std::string log_tail() const;
  // A failure to speak with it, and what it wrote.
  [[nodiscard]] absl::Status WithLastWords(const absl::Status& failure) const;
  // Resident bytes of all that is below the keeper.
  [[nodiscard]] std::int64_t memory_in_use() const;
  // Waits for the socket; UNAVAILABLE with the log when the process ends first or time is out;
  // CANCELLED.
  [[nodiscard]] absl::Status WaitForSocket(std::chrono::milliseconds timeout,
                                           const std::stop_token& cancel = {}) const;

  // Ends it and all that it started, and waits for that.
  void Stop();

 private:
  struct State;
  explicit ModelProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
