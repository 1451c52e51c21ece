// Runs a replay study on an engine, to be killed at any point: by itself at a given call of the
// file system (`--kill-at n`), or from outside. Prints what the store has acknowledged to stdout,
// one line each.
#include <fmt/format.h>
#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/launchers/launchers.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/question/trial_journal.h"
#include "tests/rpc/kill_study.h"

namespace meshwright {
namespace {

// Uses write(2), so that nothing waits in a buffer when the process is killed.
void Tell(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

// SQLite's own file system, except that the process is killed at the n-th change of a file: before
// the change, or halfway through a write.
class KillingFileSystem {
 public:
  static void Install(long kill_at) {
    state().kill_at = kill_at;
    state().real = sqlite3_vfs_find(nullptr);
    static sqlite3_vfs vfs = *state().real;
    vfs.zName = "killing";
    vfs.pNext = nullptr;
    vfs.xOpen = Open;
    if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK) std::abort();
  }
  static long calls() { return state().calls; }

 private:
  // The methods that SQLite calls for one kind of file, and the original methods behind them.
  struct Methods {
    sqlite3_io_methods own = {};
    const sqlite3_io_methods* real = nullptr;
  };
  struct State {
    sqlite3_vfs* real = nullptr;
    std::map<const sqlite3_io_methods*, Methods> methods = {};
    long kill_at = 0;
    long calls = 0;
  };
  static State& state() {
    static State state;
    return state;
  }
  static const sqlite3_io_methods& RealOf(sqlite3_file* file) {
    return *reinterpret_cast<const Methods*>(file->pMethods)->real;
  }

  static void Count() {
    if (++state().calls == state().kill_at) raise(SIGKILL);
  }

  static int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
    State& s = state();
    if (s.real == nullptr) return SQLITE_CANTOPEN;
    const int opened = s.real->xOpen(s.real, name, file, flags, out_flags);
    if (opened != SQLITE_OK || file->pMethods == nullptr) return opened;
    Methods& methods = s.methods[file->pMethods];
    methods = {.own = *file->pMethods, .real = file->pMethods};
    methods.own.xWrite = Write;
    methods.own.xSync = Sync;
    methods.own.xTruncate = Truncate;
    file->pMethods = &methods.own;
    return opened;
  }
  static int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
    Count();
    const int half = count / 2;
    const int written = RealOf(file).xWrite(file, bytes, half, offset);
    if (written != SQLITE_OK) return written;
    Count();
    return RealOf(file).xWrite(file, static_cast<const char*>(bytes) + half, count - half,
                               offset + half);
  }
  static int Sync(sqlite3_file* file, int flags) {
    Count();
    return RealOf(file).xSync(file, flags);
  }
  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    Count();
    return RealOf(file).xTruncate(file, size);
  }
};

absl::StatusOr<StudyAnswer> RunTold(const ResolvedStudy& study, const Knowledge& knowledge,
                                    const StudyControl& control) {
  const TrialJournal& real = *control.trials;
  TrialJournal told = real;
  told.begin = [&real](const ExpectedTrial& expected) {
    absl::Status status = real.begin(expected);
    if (status.ok()) {
      Tell(fmt::format("begun {} {}", expected.number, MakePlanKey(expected.plan).text));
    }
    return status;
  };
  told.end = [&real](int number, const TriedPlan& tried) {
    absl::Status status = real.end(number, tried);
    if (status.ok()) Tell(fmt::format("ended {} {}", number, MakePlanKey(tried.plan).text));
    return status;
  };
  StudyControl own = control;
  own.trials = &told;
  return RunStudyWithTrials(study, knowledge, own);
}

absl::Status Run(const std::string& store) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(""));
  ASSIGN_OR_RETURN(Recorder recorder, Recorder::Open({.path = store}));
  ASSIGN_OR_RETURN(const ResolvedStudy asked, ResolveStudy(KillStudy(knowledge), knowledge));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Start(std::move(recorder), knowledge, ProtobufCodec(knowledge), {.run = RunTold}));
  // Because the request_id is the same, an existing study is continued.
  ASSIGN_OR_RETURN(const StudyRecord study,
                   engine->CreateStudy(asked, {.study_id = kKillStudyId, .request_id = "r"}));
  Tell("created " + study.id);
  std::promise<void> ended;
  const auto sink = [&ended](const std::optional<EventRecord>& event) {
    if (!event.has_value()) ended.set_value();
  };
  ASSIGN_OR_RETURN(const std::int64_t subscription, engine->Subscribe(study.id, 0, sink));
  ended.get_future().wait();
  engine->Unsubscribe(subscription);
  return absl::OkStatus();
}

int Main(std::span<char*> arguments) {
  if (arguments.size() != 3) return 2;
  KillingFileSystem::Install(std::stol(arguments[2]));
  const absl::Status status = Run(arguments[1]);
  if (!status.ok()) {
    Tell("failed " + std::string(status.message()));
    return 1;
  }
  Tell(fmt::format("calls {}", KillingFileSystem::calls()));
  return 0;
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) { return meshwright::Main({argv, static_cast<std::size_t>(argc)}); }
