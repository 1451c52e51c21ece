// meshwrightd serves studies and recommendations over gRPC and keeps them in an SQLite file or on a
// PostgreSQL server, which several of it may share.

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <stdio.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "server/auth/callers.h"
#include "server/backups.h"
#include "server/changes/study_changes.h"
#include "server/check_config.h"
#include "server/config_file.h"
#include "server/convert/catalog_wire.h"
#include "server/convert/convert.h"
#include "server/engine/answer_memory.h"
#include "server/engine/engine.h"
#include "server/engine/engine_options.h"
#include "server/engine/journal_events.h"
#include "server/engine/queue/quota.h"
#include "server/engine/store_files.h"
#include "server/engine/store_path.h"
#include "server/engine/wall_clock.h"
#include "server/flags.h"
#include "server/guards.h"
#include "server/http/dashboard.h"
#include "server/http/http_message.h"
#include "server/http/http_server.h"
#include "server/http/metrics_page.h"
#include "server/http/read_face.h"
#include "server/http/starting.h"
#include "server/launchers/launchers.h"
#include "server/metrics/metrics.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_list.h"
#include "server/plugins/model_registry.h"
#include "server/process/exit_code.h"
#include "server/process/file_facts.h"
#include "server/process/file_limit.h"
#include "server/process/own_use.h"
#include "server/process/systemd_notice.h"
#include "server/retention.h"
#include "server/rpc/calls/call_end.h"
#include "server/rpc/calls/caller_counts.h"
#include "server/rpc/entrance.h"
#include "server/rpc/server.h"
#include "server/rpc/services/job_templates.h"
#include "server/rpc/tls.h"
#include "server/store_health.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_control.h"
#include "vendor_models/catalogue.h"
#include "vendor_models/chip_file.h"

namespace meshwright {
namespace {

// A predecessor that was told to stop may still be draining (server.h, ServerOptions::drain).
constexpr std::chrono::seconds kLockWait(10);

// The files that the program may need beside the connections of gRPC: those of the dashboard, of
// the store and its readers, of jobs and of vendors' models.
constexpr int kOtherFiles = 512;

void StartLog(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("meshwrightd");
  logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

int ExitCode(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return kExitInvalidInput;
  if (absl::IsNotFound(status)) return kExitNotFound;
  // Before a server serves, a failed precondition means that its store cannot be used.
  if (absl::IsUnavailable(status) || absl::IsFailedPrecondition(status)) return kExitUnavailable;
  return kExitInternal;
}

// Blocks the signals that end the program, in this thread and in all that it starts, so that one
// thread can wait for them.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);  // ends nothing, but is waited for with the others
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Waits for the signal that ends the program. Once a second, looks at the store; once a day,
// deletes what is too old; at SIGHUP, reads the callers and the job templates again.
int WaitForEnd(const sigset_t& end_signals, const Flags& flags, const Engine& engine,
               const Reloadable& lists, StoreHealth& health) {
  constexpr timespec kSecond = {.tv_sec = 1, .tv_nsec = 0};
  auto forgets_at = std::chrono::steady_clock::now();
  while (true) {
    health.Check();
    if (std::chrono::steady_clock::now() >= forgets_at) {
      DeleteWhatIsOld(flags, engine);
      forgets_at += std::chrono::hours(24);
    }
    const int signal = sigtimedwait(&end_signals, nullptr, &kSecond);
    if (signal == SIGHUP) {
      Reload(flags, lists);
    } else if (signal > 0) {
      return signal;
    }
  }
}

// Returns null if there are no vendors' models.
absl::StatusOr<std::unique_ptr<ModelRegistry>> OpenModels(const std::string& folder) {
  if (folder.empty()) return std::unique_ptr<ModelRegistry>();
  const auto on_event = [](std::string_view event, const std::string& what) {
    spdlog::info("event=cost_model_{} {}", event, what);
  };
  return ModelRegistry::Open(folder, {}, on_event);
}

WriteFace WritesOf(const JobRules& jobs, const Knowledge& knowledge, Engine& engine) {
  return {
      .create_study = [&jobs, &knowledge, &engine](
                          const v1::CreateStudyRequest& stated,
                          std::string_view creator) -> absl::StatusOr<v1::CreateStudyResponse> {
        v1::CreateStudyRequest request = stated;
        RETURN_IF_ERROR(ResolveJob(jobs, request));
        return CreateStudy(request, creator, knowledge, engine);
      },
      .cancel_study =
          [&engine](const v1::CancelStudyRequest& request) { return CancelStudy(request, engine); },
      .pause_study =
          [&engine](const v1::PauseStudyRequest& request) { return PauseStudy(request, engine); },
      .resume_study =
          [&engine](const v1::ResumeStudyRequest& request) { return ResumeStudy(request, engine); },
      .delete_study =
          [&engine](const v1::DeleteStudyRequest& request) { return DeleteStudy(request, engine); },
      .retry_trials =
          [&engine](const v1::RetryTrialsRequest& request) { return RetryTrials(request, engine); },
      .update_study =
          [&engine](const v1::UpdateStudyRequest& request) {
            return UpdateStudy(request, engine.store());
          }};
}

ReadFace FaceOf(const ServerOptions& options, const Metrics& metrics, const Knowledge& knowledge,
                Engine& engine, std::optional<WriteFace> writes) {
  return {
      .knowledge = knowledge,
      .history = engine.queries(),
      .feed = {.subscribe =
                   [&engine](std::string_view id, std::int64_t after_revision, EventSink sink) {
                     return engine.Subscribe(id, after_revision, std::move(sink));
                   },
               .unsubscribe = [&engine](std::int64_t id) { engine.Unsubscribe(id); }},
      .server_info = [&options, &knowledge, &engine] { return InfoOf(options, knowledge, engine); },
      .list_cost_models = options.list_cost_models,
      .list_callers = options.list_callers,
      .learnt = [&engine](std::optional<std::int64_t> up_to) { return engine.History(up_to); },
      .open_model = options.open_model,
      .answers = &engine.answers(),
      .writes = std::move(writes),
      .reception = ReceptionOf(options, engine),
      .metrics = [&metrics] { return metrics.Text(); }};
}

// A listener for HTTP that opens before the server is ready.
struct HttpDoor {
  std::unique_ptr<StartingGate> handler = std::make_unique<StartingGate>();
  std::unique_ptr<HttpServer> server = {};  // null: there is none
};

// The listeners that open before the server is ready.
struct Doors {
  std::unique_ptr<Entrance> entrance = {};
  HttpDoor dashboard = {};
  HttpDoor metrics = {};
};

// Opens the door if there is to be one and it is not open yet.
absl::Status OpenHttp(const std::string& listen, std::string_view flag, HttpDoor& door) {
  if (listen.empty() || door.server != nullptr) return absl::OkStatus();
  const auto answer = [&handler = *door.handler](const HttpRequest& request) {
    return handler.Answer(request);
  };
  ASSIGN_OR_RETURN(door.server,
                   HttpServer::Start({.listen = listen, .flag = std::string(flag)}, answer));
  return absl::OkStatus();
}

void DrainHttp(const HttpDoor& door) {
  if (door.server != nullptr) door.server->Drain();
}

// Closes the connections that have not drained by then.
void CloseHttp(HttpDoor& door, std::chrono::steady_clock::time_point drained_by) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(drained_by - std::chrono::steady_clock::now());
  if (door.server != nullptr) door.server->Shutdown(std::max(milliseconds(0), left));
  door.server.reset();
  door.handler.reset();
}

// Opens what is not open yet.
absl::Status OpenDoors(const ServerOptions& options, const Flags& flags, Doors& doors) {
  if (doors.entrance == nullptr) {
    ASSIGN_OR_RETURN(doors.entrance, OpenEntrance(options));
    spdlog::info("event=listening address={}", doors.entrance->address());
  }
  RETURN_IF_ERROR(OpenHttp(flags.http, "http", doors.dashboard));
  return OpenHttp(flags.metrics, "metrics", doors.metrics);
}

// Opens the store. Clients are answered meanwhile, because it may take a while: a predecessor may
// still drain, and a large store may have to be checked or upgraded. If a predecessor has the
// address too, it is free when the store is.
absl::StatusOr<Recorder> OpenStore(const Flags& flags, const ServerOptions& options, Doors& doors) {
  const absl::Status opened = OpenDoors(options, flags, doors);
  if (!opened.ok() && !absl::IsUnavailable(opened)) return opened;
  ASSIGN_OR_RETURN(Recorder recorder,
                   Recorder::Open({.path = flags.store,
                                   .lock_wait = kLockWait,
                                   .who = fmt::format("meshwrightd on {}", flags.server.listen),
                                   .runs_studies = true}));
  RETURN_IF_ERROR(OpenDoors(options, flags, doors));
  return recorder;
}

// Leaves files for everything else, so that a client with many connections stops nothing.
int ConnectionLimit(int file_limit, int wanted) {
  return std::min(wanted, std::max(file_limit - kOtherFiles, file_limit / 2));
}

ServerOptions OptionsOf(const Flags& flags, ModelRegistry* registry) {
  ServerOptions options = flags.server;
  options.drain = std::chrono::seconds(flags.drain_seconds);
  options.connection_limit = ConnectionLimit(RaiseFileLimit(), options.connection_limit);
  options.host_connection_limit =
      std::min(options.host_connection_limit, options.connection_limit / 2);
  if (registry == nullptr) return options;
  options.open_model = [registry](std::string_view name, const Problem& problem,
                                  const std::stop_token& cancel) {
    return registry->OpenModel(name, problem, cancel);
  };
  for (const ModelManifest& model : registry->manifests()) {
    options.cost_models.push_back(model.name);
  }
  options.list_cost_models = [registry, folder = flags.cost_models] {
    return ListCostModels(folder, registry->manifests());
  };
  return options;
}

std::vector<std::string> ChipIds(const Catalogue& chips) {
  std::vector<std::string> ids;
  for (const ChipEntry& entry : chips.chips()) ids.push_back(entry.spec.id);
  return ids;
}

EngineHooks HooksOf(const Flags& flags, const OpenPlanModel& open_model, Metrics& metrics) {
  const auto on_error = [](std::string_view study_id, const absl::Status& status) {
    spdlog::error("event=store_failed study={} reason={} what=\"{}\"", study_id, Reason(status),
                  std::string(status.message()));
  };
  const auto run = [open_model](const ResolvedStudy& study, const Knowledge& known,
                                const StudyControl& control) {
    StudyControl own = control;
    own.open_model = open_model;
    return RunStudyWithTrials(study, known, own);
  };
  return {.on_error = on_error,
          .run = run,
          .on_store_write =
              [&metrics](std::chrono::duration<double> time) { metrics.NoteStoreWrite(time); },
          .on_measurement =
              [&metrics](const MeasurementRecord& measurement) {
                metrics.NoteMeasurement(measurement);
              },
          .study_lease = std::chrono::seconds(flags.study_lease_seconds),
          .quota = QuotaOf(flags),
          .allows_jobs = flags.allows_jobs};
}

MetricReadings ReadingsOf(const std::string& store, const Engine& engine, const Server& server,
                          const Backups& backups, bool serves) {
  const StoreSize size = SizeOfStore(store);
  return {.studies = engine.load(),
          .calls = server.load(),
          .answer_cache_bytes = static_cast<std::int64_t>(engine.answers().bytes()),
          .store_bytes = size.bytes,
          .store_free_bytes = size.free_bytes,
          .newest_backup_seconds = backups.newest_seconds(),
          .serves = serves,
          .process = ReadOwnUse()};
}

// Makes health checks and the log say how the store is.
StoreHealth WatchStore(const Flags& flags, const Engine& engine, Server& server,
                       std::atomic<bool>& serves) {
  const auto on_change = [&server, &serves](const absl::Status& status) {
    serves = status.ok();
    server.SetServing(status.ok());
    if (status.ok()) {
      spdlog::info("event=store_well");
    } else {
      spdlog::error("event=store_bad reason={} what=\"{}\"", Reason(status),
                    std::string(status.message()));
    }
  };
  return StoreHealth({.check_file = [&engine] { return engine.CheckStore(); },
                      .free_bytes = [path = flags.store] { return SizeOfStore(path).free_bytes; },
                      .least_free_bytes = std::int64_t{flags.min_free_mib} << 20},
                     on_change);
}

void PrintAddresses(const Server& server, const Doors& doors) {
  fmt::print("listening on {}\n", server.address());
  if (const HttpServer* http = doors.dashboard.server.get()) {
    fmt::print("dashboard at http://{}/\n", http->address());
  }
  if (const HttpServer* http = doors.metrics.server.get()) {
    fmt::print("metrics at http://{}{}\n", http->address(), kMetricsAddress);
  }
  fflush(stdout);
}

absl::Status Serve(const Flags& flags, const sigset_t& end_signals) {
  if (flags.allows_jobs && !flags.allows_insecure_jobs) {
    RETURN_IF_ERROR(CheckJobsAreGuarded(flags.callers, flags.server.listen));
  }
  if (!flags.backups.folder.empty()) RETURN_IF_ERROR(CheckBackupFolder(flags.backups.folder));
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelRegistry> registry, OpenModels(flags.cost_models));
  ServerOptions options = OptionsOf(flags, registry.get());
  ASSIGN_OR_RETURN(options.jobs, JobRulesOf(flags));
  options.quota = QuotaOf(flags);
  ASSIGN_OR_RETURN(const std::shared_ptr<KnownCallers> callers, ReadCallers(flags.callers));
  options.callers = callers;
  Metrics metrics(ServerInfo(knowledge, 0).version(), ChipIds(knowledge.chips));
  CallerCounts counts(NowMs());
  options.on_call_end = [&metrics, &counts](const EndedCall& call) {
    metrics.NoteCall(call);
    counts.NoteCall(call, NowMs());
  };
  options.store_size = [&flags] { return SizeOfStore(flags.store); };
  if (!flags.tls.certificate.empty()) {
    RETURN_IF_ERROR(CheckTls(flags.tls));
    options.tls = flags.tls;
  }
  Doors doors;
  ASSIGN_OR_RETURN(Recorder recorder, OpenStore(flags, options, doors));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Start(std::move(recorder), knowledge, ProtobufCodec(knowledge),
                                 HooksOf(flags, options.open_model, metrics)));
  options.list_callers = [&counts, &callers, &engine] {
    v1::ListCallersResponse list = counts.List(callers.get());
    AddUse(engine->queries(), NowMs(), list);
    return list;
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                   Server::Start(options, knowledge, *engine, std::move(doors.entrance)));
  std::optional<WriteFace> writes;
  if (flags.allows_http_writes) writes = WritesOf(options.jobs, knowledge, *engine);
  const ReadFace face = FaceOf(options, metrics, knowledge, *engine, std::move(writes));
  std::atomic<bool> serves = true;
  StoreHealth health = WatchStore(flags, *engine, *server, serves);
  const Backups backups(flags.backups, flags.store, engine->queries());
  metrics.ReadBy([&] { return ReadingsOf(flags.store, *engine, *server, backups, serves); });
  doors.dashboard.handler->PassTo(DashboardHandler(face));
  doors.metrics.handler->PassTo(MetricsHandler(face.metrics, callers.get()));

  PrintAddresses(*server, doors);
  spdlog::info("event=started address={} store={} chips={}", server->address(), flags.store,
               knowledge.chips.chips().size());
  NotifySystemd("READY=1");
  const Reloadable lists = {.callers = callers.get(), .templates = options.jobs.templates.get()};
  const int signal = WaitForEnd(end_signals, flags, *engine, lists, health);
  spdlog::info("event=stopping signal={}", signal);
  NotifySystemd("STOPPING=1");
  // A second longer than calls have, so that their answers can be sent.
  const auto drained_by =
      std::chrono::steady_clock::now() + options.drain + std::chrono::seconds(1);
  DrainHttp(doors.dashboard);
  server->Shutdown();
  CloseHttp(doors.dashboard, drained_by);
  CloseHttp(doors.metrics, std::chrono::steady_clock::now());
  spdlog::info("event=store longest_store_hold_ms={:.1f}",
               1000 * engine->longest_store_hold().count());
  return absl::OkStatus();
}

// Prints each mistake as a line.
int Refuse(const std::vector<std::string>& mistakes, int exit_code) {
  for (const std::string& mistake : mistakes) fmt::print(stderr, "meshwrightd: {}\n", mistake);
  return exit_code;
}

int ReportCheck(const Flags& flags) {
  const std::vector<absl::Status> wrong = CheckConfig(flags);
  if (wrong.empty()) {
    fmt::print("the configuration is valid\n");
    return kExitDone;
  }
  std::vector<std::string> mistakes;
  mistakes.reserve(wrong.size());
  for (const absl::Status& status : wrong) mistakes.emplace_back(status.message());
  return Refuse(mistakes, ExitCode(wrong.front()));
}

int Run(const Flags& flags) {
  const sigset_t end_signals = BlockEndSignals();
  StartLog(flags.log_level);
  const absl::Status status = Serve(flags, end_signals);
  if (!status.ok()) {
    spdlog::error("event=failed reason={} what=\"{}\"", Reason(status),
                  std::string(status.message()));
    return ExitCode(status);
  }
  spdlog::info("event=stopped");
  return kExitDone;
}

int ServerMain(int argc, char** argv) {
  Flags flags;
  std::vector<std::string> mistakes;
  CLI::App app("Meshwright's server finds how to split a model across chips, over gRPC.",
               "meshwrightd");
  DeclareFlags(app, flags);
  AddConfigFile(app, mistakes);
  try {
    app.parse(argc, argv);
  } catch (const CLI::FileError& e) {
    return Refuse({e.what()}, kExitNotFound);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitDone : kExitUsage;
  }
  if (flags.prints_config) {
    fmt::print("{}", ConfigFileOf(app));
    return kExitDone;
  }
  for (std::string& conflict : FlagConflicts(flags)) mistakes.push_back(std::move(conflict));
  if (!mistakes.empty()) {
    const bool has_file = app.get_config_ptr()->count() > 0;
    return Refuse(mistakes, has_file ? kExitInvalidInput : kExitUsage);
  }
  if (flags.store.empty()) flags.store = DefaultStorePath();
  return flags.checks_config ? ReportCheck(flags) : Run(flags);
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  try {
    return meshwright::ServerMain(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "meshwrightd: {}\n", e.what());
    return 1;
  }
}
