#include "server/plugins/model_process.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "server/plugins/protocol/protocol.h"
#include "server/process/descriptor.h"
#include "server/process/follow_output.h"
#include "server/process/numbers_in.h"
#include "server/process/sanitizer.h"
#include "server/process/spawn.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kHostName[] = "meshwright-costmodel-host";
constexpr char kIsolationWord[] = "meshwright-confinement ";
constexpr std::size_t kLongestSocket = 100;  // Linux allows 107
constexpr std::size_t kLogTail = 16 << 10;
constexpr std::size_t kLongestWords = 1'000;  // longest part of a log in a message
constexpr double kLogRate = 64 << 10;         // bytes per second that are read
constexpr std::chrono::milliseconds kLogPause(10);
constexpr std::chrono::milliseconds kGrace(1000);  // from asking the keeper to end to killing it
constexpr int kSignalBase = 128;

std::string HostProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / kHostName).string();
}

absl::StatusOr<std::string> MakeFolder() {
  std::error_code error;
  std::string base = std::filesystem::temp_directory_path(error).string();
  constexpr std::string_view kPattern = "/meshwright-model-XXXXXX";
  if (error || base.size() + kPattern.size() + sizeof("/model.sock") > kLongestSocket) {
    base = P_tmpdir;  // a short path of the system
  }
  std::string folder = base + std::string(kPattern);
  if (mkdtemp(folder.data()) == nullptr) {  // with mode 0700
    return absl::UnavailableError(fmt::format("{}: {}", folder, std::strerror(errno)));
  }
  return folder;
}

std::vector<std::string> EnvironmentOf(const ProcessSpec& spec, const std::string& folder) {
  std::map<std::string, std::string> all = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                                            {"LANG", "C.UTF-8"},
                                            {"HOME", folder},
                                            {"TMPDIR", folder},
                                            {"PYTHONDONTWRITEBYTECODE", "1"}};
  // LeakSanitizer traces its own process, which the namespaces and NO_NEW_PRIVS may forbid.
  if (kHasAddressSanitizer) all["ASAN_OPTIONS"] = "detect_leaks=0";
  for (const auto& [name, value] : spec.environment) all[name] = value;
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const auto& [name, value] : all) lines.push_back(fmt::format("{}={}", name, value));
  return lines;
}

std::vector<std::string> ArgumentsOf(const ProcessSpec& spec, const std::string& folder,
                                     const std::string& socket) {
  const ModelLimits& limits = spec.limits;
  std::vector<std::string> arguments = {kHostName,
                                        "--confine",
                                        "--parent",
                                        std::to_string(getpid()),
                                        "--folder",
                                        folder,
                                        "--memory-bytes",
                                        std::to_string(limits.memory_bytes),
                                        "--cpu-seconds",
                                        std::to_string(limits.cpu_seconds),
                                        "--file-bytes",
                                        std::to_string(limits.file_bytes),
                                        "--open-files",
                                        std::to_string(limits.open_files),
                                        "--processes",
                                        std::to_string(limits.processes),
                                        "--"};
  arguments.insert(arguments.end(), spec.command.begin(), spec.command.end());
  arguments.insert(arguments.end(), {kSocketFlag, socket});
  return arguments;
}

// Sums the resident bytes of a process and its descendants. By proc(5), the second number of statm
// is in pages, and children are listed by thread.
std::int64_t ResidentBytesBelow(int pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  std::int64_t all = 0;
  std::int64_t resident = 0;
  std::ifstream(folder + "/statm") >> all >> resident;
  std::int64_t bytes = resident * sysconf(_SC_PAGESIZE);
  for (const int thread : NumbersIn(folder + "/task")) {
    std::ifstream children(fmt::format("{}/task/{}/children", folder, thread));
    for (int child = 0; children >> child;) bytes += ResidentBytesBelow(child);
  }
  return bytes;
}

std::string EndingText(int status) {
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (code > kSignalBase) signal = code - kSignalBase;
  if (signal == 0) return fmt::format("exit code {}", code);
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

absl::StatusOr<int> StartKeeper(const ProcessSpec& spec, const std::string& folder,
                                const std::string& socket, const FileHandle& log) {
  ASSIGN_OR_RETURN(const FileHandle no_input, OpenEmptyInput());
  return Spawn({.arguments = ArgumentsOf(spec, folder, socket),
                .program = HostProgram(),
                .environment = EnvironmentOf(spec, folder),
                .folder = folder,
                .descriptors = {{STDIN_FILENO, no_input.number()},
                                {STDOUT_FILENO, log.number()},
                                {STDERR_FILENO, log.number()}},
                .has_own_session = true});
}

// Keeps the end of what a model writes, at a bounded rate.
class Log {
 public:
  // Returns true if the writer is too fast.
  bool Add(std::string_view text) {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    allowance_ = std::min(kLogRate, allowance_ + seconds * kLogRate);
    const auto taken = std::min(text.size(), static_cast<std::size_t>(allowance_));
    allowance_ -= static_cast<double>(taken);
    dropped_ += text.size() - taken;
    tail_.append(text.substr(0, taken));
    ReadIsolation(text.substr(0, taken));
    if (tail_.size() > kLogTail) tail_.erase(0, tail_.size() - kLogTail);
    return taken < text.size();
  }

  [[nodiscard]] std::string Tail() const {
    const std::string tail =
        CleanText(tail_, {.longest_bytes = kLogTail, .keeps_lines = true, .keeps_end = true});
    return dropped_ == 0 ? tail : fmt::format("{}\n[{} bytes were dropped]", tail, dropped_);
  }
  // Returns the end as it stands in a message.
  [[nodiscard]] std::string LastWords() const {
    if (tail_.empty()) return "it wrote nothing";
    return "it wrote: " + CleanText(tail_, {.longest_bytes = kLongestWords, .keeps_end = true});
  }
  [[nodiscard]] bool has_first_line() const { return has_first_line_; }
  [[nodiscard]] const std::string& isolation() const { return isolation_; }

 private:
  // The keeper writes the first line before the model runs, so the line is not the model's.
  void ReadIsolation(std::string_view text) {
    if (has_first_line_) return;
    first_.append(text);
    const std::size_t end = first_.find('\n');
    if (end == std::string::npos && first_.size() < 256) return;
    has_first_line_ = true;
    if (!first_.starts_with(kIsolationWord)) return;
    const std::string_view words = std::string_view(first_).substr(0, end);
    isolation_ = CleanText(words.substr(sizeof(kIsolationWord) - 1), {});
    tail_.erase(0, words.size() + 1);
  }

  Clock::time_point last_ = Clock::now();
  double allowance_ = kLogRate;
  std::size_t dropped_ = 0;
  std::string tail_;
  bool has_first_line_ = false;
  std::string first_;
  std::string isolation_;
};

}  // namespace

struct ModelProcess::State {
  void Run(const ProcessSpec& spec);
  absl::Status Begin(const ProcessSpec& spec, const FileHandle& log);
  [[nodiscard]] std::string EndingAtStart() const;

  std::string folder;
  std::string socket;
  std::int64_t memory_bytes = 0;  // the limit
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  absl::Status start = absl::OkStatus();
  int pid = 0;         // 0 if not started
  FileHandle process;  // closed when it has ended
  bool is_ended = false;
  std::string ending;
  Log log;
  std::thread keeper;  // makes the process and looks after it until it ends
};

// Names the memory limit after a signal: programs that find no memory die of one and seldom say
// why.
std::string ModelProcess::State::EndingAtStart() const {
  if (!ending.starts_with("signal")) return ending;
  return fmt::format("{}, with memory_limit_bytes = {}", ending, memory_bytes);
}

// Makes the process. A process whose end cannot be waited for is not left running.
absl::Status ModelProcess::State::Begin(const ProcessSpec& spec, const FileHandle& log_writer) {
  ASSIGN_OR_RETURN(const int child, StartKeeper(spec, folder, socket, log_writer));
  absl::StatusOr<FileHandle> handle = OpenProcess(child);
  if (!handle.ok()) {
    kill(-child, SIGKILL);  // its group, whose leader it is
    waitpid(child, nullptr, 0);
    return handle.status();
  }
  const std::lock_guard lock(mutex);
  process = *std::move(handle);
  pid = child;
  changed.notify_all();
  return absl::OkStatus();
}

void ModelProcess::State::Run(const ProcessSpec& spec) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  const absl::Status begun = pipe.ok() ? Begin(spec, pipe->write) : pipe.status();
  if (!begun.ok()) {
    const std::lock_guard lock(mutex);
    start = absl::UnavailableError(begun.message());
    is_ended = true;
    changed.notify_all();
    return;
  }
  pipe->write.Close();
  const auto add = [this](std::string_view piece) {
    const std::lock_guard lock(mutex);
    return log.Add(piece) ? kLogPause : std::chrono::milliseconds(0);
  };
  if (!FollowOutput(std::move(pipe->read), process, add).ok()) kill(-pid, SIGKILL);
  // The keeper is not reaped before this point, so that its id stays its own. If it ended by
  // itself, nothing of its group may be left.
  siginfo_t looked = {};
  waitid(P_PID, static_cast<id_t>(pid), &looked, WEXITED | WNOWAIT);
  kill(-pid, SIGKILL);
  const std::lock_guard lock(mutex);
  int status = 0;
  waitpid(pid, &status, 0);
  ending = EndingText(status);
  is_ended = true;
  process.Close();
  changed.notify_all();
}

absl::StatusOr<ProcessSpec> SpecOf(const ModelManifest& manifest) {
  RETURN_IF_ERROR(VerifyChecksum(manifest));
  ProcessSpec spec = {.environment = manifest.environment, .limits = manifest.limits};
  if (manifest.program.empty()) {
    spec.command = {HostProgram(), "--library", manifest.library};
  } else {
    spec.command = {manifest.program};
    spec.command.insert(spec.command.end(), manifest.arguments.begin(), manifest.arguments.end());
  }
  return spec;
}

ModelProcess::ModelProcess(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<ModelProcess>> ModelProcess::Start(const ProcessSpec& spec) {
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(state->folder, MakeFolder());
  state->socket = state->folder + "/model.sock";
  state->memory_bytes = spec.limits.memory_bytes;
  State& shared = *state;
  std::unique_ptr<ModelProcess> process(new ModelProcess(std::move(state)));
  shared.keeper = std::thread([&shared, spec] { shared.Run(spec); });
  std::unique_lock lock(shared.mutex);
  shared.changed.wait(lock, [&] { return shared.pid != 0 || shared.is_ended; });
  if (!shared.start.ok()) {
    const absl::Status failed = shared.start;
    lock.unlock();
    return failed;
  }
  lock.unlock();
  return process;
}

ModelProcess::~ModelProcess() {
  Stop();
  std::error_code ignored;
  std::filesystem::remove_all(state_->folder, ignored);
}

const std::string& ModelProcess::socket() const { return state_->socket; }

int ModelProcess::pid() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pid;
}

std::string ModelProcess::isolation() const {
  const std::lock_guard lock(state_->mutex);
  return state_->log.isolation();
}

bool ModelProcess::has_ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->is_ended;
}

bool ModelProcess::WaitForEnd(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, timeout, [&] { return state_->is_ended; });
}

std::string ModelProcess::how_it_ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ending;
}

std::int64_t ModelProcess::memory_in_use() const { return ResidentBytesBelow(pid()); }

std::string ModelProcess::log_tail() const {
  const std::lock_guard lock(state_->mutex);
  return state_->log.Tail();
}

absl::Status ModelProcess::WaitForSocket(std::chrono::milliseconds timeout,
                                         const std::stop_token& cancel) const {
  constexpr std::chrono::milliseconds kLook(5);
  constexpr int kLooksForLine = 100;
  const Clock::time_point end = Clock::now() + timeout;
  std::unique_lock lock(state_->mutex);
  while (access(state_->socket.c_str(), F_OK) != 0) {
    if (state_->is_ended) {
      return WithReason(
          absl::UnavailableError(fmt::format("the model ended while it started, {}; {}",
                                             state_->EndingAtStart(), state_->log.LastWords())),
          "COST_MODEL_START");
    }
    if (Clock::now() >= end) {
      return WithReason(
          absl::UnavailableError(fmt::format("the model did not serve within {:.3g} s; {}",
                                             std::chrono::duration<double>(timeout).count(),
                                             state_->log.LastWords())),
          "COST_MODEL_START");
    }
    if (cancel.stop_requested()) return absl::CancelledError("cancelled");
    state_->changed.wait_for(lock, kLook);
  }
  // The keeper wrote its line before there was a model to make the socket, so it only has to be
  // read.
  for (int look = 0; look < kLooksForLine && !state_->log.has_first_line(); ++look) {
    state_->changed.wait_for(lock, kLook);
  }
  return absl::OkStatus();
}

absl::Status ModelProcess::WithLastWords(const absl::Status& failure) const {
  const std::lock_guard lock(state_->mutex);
  const std::string ended =
      state_->is_ended ? fmt::format("; it ended, {}", state_->EndingAtStart()) : "";
  return {failure.code(),
          fmt::format("{}{}; {}", std::string(failure.message()), ended, state_->log.LastWords())};
}

void ModelProcess::Stop() {
  if (!state_->keeper.joinable()) return;
  {
    std::unique_lock lock(state_->mutex);
    const auto send = [&](int signal) {
      if (state_->process.is_open()) {
        syscall(SYS_pidfd_send_signal, state_->process.number(), signal, nullptr, 0);
      }
    };
    const auto has_ended = [&] { return state_->is_ended; };
    send(SIGTERM);
    if (!state_->changed.wait_for(lock, kGrace, has_ended)) {
      send(SIGKILL);  // the kernel then ends the namespace, and Run the group
    }
  }
  state_->keeper.join();
}

}  // namespace meshwright
