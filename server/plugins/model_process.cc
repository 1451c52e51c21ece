#include "server/plugins/model_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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
#include "server/process/sanitizer.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kHostName[] = "meshwright-costmodel-host";
constexpr char kIsolationWord[] = "meshwright-confinement ";
constexpr std::size_t kLongestSocket = 100;  // of a Unix socket's 107
constexpr std::size_t kLogTail = 16 << 10;
constexpr std::size_t kLongestWords = 1'000;  // of a log, in a message
constexpr double kLogRate = 64 << 10;         // bytes a second that are looked at
constexpr std::chrono::milliseconds kLogPause(10);
constexpr std::chrono::milliseconds kGrace(1000);  // between asking the keeper and killing it
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
    base = P_tmpdir;  // a path of the system's own that is short
  }
  std::string folder = base + std::string(kPattern);
  if (mkdtemp(folder.data()) == nullptr) {  // 0700
    return absl::UnavailableError(fmt::format("{}: {}", folder, std::strerror(errno)));
  }
  return folder;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentOf(const ProcessSpec& spec, const std::string& folder) {
  std::map<std::string, std::string> all = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                                            {"LANG", "C.UTF-8"},
                                            {"HOME", folder},
                                            {"TMPDIR", folder},
                                            {"PYTHONDONTWRITEBYTECODE", "1"}};
  // LeakSanitizer traces its own process, which the namespaces and NO_NEW_PRIVS need not allow.
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

// proc(5): statm's second number is in pages; children are listed by thread.
std::int64_t ResidentBytesBelow(int pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  std::int64_t all = 0;
  std::int64_t resident = 0;
  std::ifstream(folder + "/statm") >> all >> resident;
  std::int64_t bytes = resident * sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", error)) {
    std::ifstream children(thread.path() / "children");
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

// A pipe whose ends close with this.
struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  }
  ~Pipe() {
    CloseWriter();
    if (ends[0] >= 0) close(ends[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void CloseWriter() {
    if (ends[1] >= 0) close(std::exchange(ends[1], -1));
  }
  std::array<int, 2> ends = {-1, -1};
};

absl::StatusOr<int> Spawn(const ProcessSpec& spec, const std::string& folder,
                          const std::string& socket, int log) {
  std::vector<std::string> arguments = ArgumentsOf(spec, folder, socket);
  std::vector<std::string> environment = EnvironmentOf(spec, folder);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD}) sigaddset(&signals, signal);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
  const std::string host = HostProgram();
  pid_t pid = 0;
  const int error = posix_spawn(&pid, host.c_str(), &actions, &attributes,
                                Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return absl::UnavailableError(fmt::format("{}: {}", host, std::strerror(error)));
}

// A process whose end cannot be waited for with its log is not left running.
absl::Status EndUnwatched(int pid, int error) {
  kill(-pid, SIGKILL);  // its group, whose leader it is
  waitpid(pid, nullptr, 0);
  return absl::UnavailableError(fmt::format("pidfd_open: {}", std::strerror(error)));
}

// What a model writes: the last of it, at a bounded rate.
class Log {
 public:
  // Whether the writer is too fast.
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
  // As a message has it.
  [[nodiscard]] std::string LastWords() const {
    if (tail_.empty()) return "it wrote nothing";
    return "it wrote: " + CleanText(tail_, {.longest_bytes = kLongestWords, .keeps_end = true});
  }
  [[nodiscard]] bool has_first_line() const { return has_first_line_; }
  [[nodiscard]] const std::string& isolation() const { return isolation_; }

 private:
  // The keeper writes the first line, before the model runs: it is not the model's.
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
  void Follow(int log, int process);
  void ReadLog(int log);
  [[nodiscard]] std::string EndingAtStart() const;

  std::string folder;
  std::string socket;
  std::int64_t memory_bytes = 0;  // the limit
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  absl::Status start = absl::OkStatus();
  int pid = 0;       // 0: not started
  int process = -1;  // descriptor of the process
  bool is_ended = false;
  std::string ending;
  Log log;
  std::thread keeper;  // makes the process and looks after it until it ends
};

// Programs die of a signal where they find no memory, and seldom say so.
std::string ModelProcess::State::EndingAtStart() const {
  if (!ending.starts_with("signal")) return ending;
  return fmt::format("{}, with memory_limit_bytes = {}", ending, memory_bytes);
}

void ModelProcess::State::ReadLog(int descriptor) {
  std::array<char, 64 << 10> part;
  const ssize_t length = read(descriptor, part.data(), part.size());
  if (length <= 0) return;
  bool is_too_fast = false;
  {
    const std::lock_guard lock(mutex);
    is_too_fast = log.Add({part.data(), static_cast<std::size_t>(length)});
  }
  if (is_too_fast) std::this_thread::sleep_for(kLogPause);
}

// Until the process ends, and then what is left in the pipe.
void ModelProcess::State::Follow(int descriptor, int child) {
  for (bool is_running = true; is_running;) {
    std::array<pollfd, 2> waits = {pollfd{.fd = descriptor, .events = POLLIN, .revents = 0},
                                   pollfd{.fd = child, .events = POLLIN, .revents = 0}};
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) break;
    is_running = (waits[1].revents & POLLIN) == 0;
    if ((waits[0].revents & POLLIN) != 0) ReadLog(descriptor);
    // Closed by the model, which goes on: only its end is waited for.
    if (waits[0].revents == POLLHUP) descriptor = -1;
  }
  for (int i = 0; descriptor >= 0 && i < 16; ++i) {  // a pipe holds no more
    pollfd wait = {.fd = descriptor, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, 0) <= 0 || (wait.revents & POLLIN) == 0) break;
    ReadLog(descriptor);
  }
}

void ModelProcess::State::Run(const ProcessSpec& spec) {
  Pipe pipe;
  const absl::StatusOr<int> spawned =
      pipe.ends[0] < 0 ? absl::UnavailableError(fmt::format("pipe: {}", std::strerror(errno)))
                       : Spawn(spec, folder, socket, pipe.ends[1]);
  int child = -1;
  {
    const std::lock_guard lock(mutex);
    start = spawned.status();
    if (spawned.ok()) child = static_cast<int>(syscall(SYS_pidfd_open, *spawned, 0));
    if (spawned.ok() && child < 0) start = EndUnwatched(*spawned, errno);
    is_ended = !start.ok();
    process = child;
    if (start.ok()) pid = *spawned;
    changed.notify_all();
  }
  pipe.CloseWriter();
  if (child < 0) return;
  Follow(pipe.ends[0], child);
  // Not reaped before: until here its id is its own. Nothing of its group is left when the keeper
  // ended by itself.
  siginfo_t looked = {};
  waitid(P_PID, static_cast<id_t>(*spawned), &looked, WEXITED | WNOWAIT);
  kill(-*spawned, SIGKILL);
  const std::lock_guard lock(mutex);
  int status = 0;
  waitpid(*spawned, &status, 0);
  ending = EndingText(status);
  is_ended = true;
  close(std::exchange(process, -1));
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
          absl::UnavailableError(fmt::format("the model ended at its start, {}; {}",
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
  // The keeper wrote its line before there was a model to make the socket: it need only be read.
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
      if (state_->process >= 0) {
        syscall(SYS_pidfd_send_signal, state_->process, signal, nullptr, 0);
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
