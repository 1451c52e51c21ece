#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/local/local_history.h"
#include "cli/local/local_store.h"
#include "cli/program/interrupt.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/convert/catalog_wire.h"
#include "server/engine/followers.h"
#include "server/engine/history_queries.h"
#include "server/engine/journal_events.h"
#include "server/engine/store_files.h"
#include "server/http/dashboard.h"
#include "server/http/http_server.h"
#include "server/http/read_face.h"
#include "server/process/exit_code.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

// How often the journals are read for what other commands have written.
constexpr std::chrono::milliseconds kPollInterval(500);

// Returns when the user ends the program.
void PollUntilEnd(Followers& followers, const std::stop_token& end) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!end.stop_requested()) {
    ended.wait_for(lock, end, kPollInterval, [] { return false; });
    followers.PublishAll().IgnoreError();  // it is tried again
  }
}

int Serve(const std::string& listen, const GlobalFlags& flags) {
  if (!flags.server.empty()) {
    PrintNote("error: dashboard takes no --server: start meshwrightd with --http");
    return kExitUsage;
  }
  const Interrupt interrupt;
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), flags.output);
  if (const auto store = OpenLocalReader(flags.store); !store.ok()) {
    return Fail(store.status(), flags.output);
  }
  const StoreAccess reader = LocalReads(flags.store);
  Followers followers(reader);
  const ReadFace face = {
      .knowledge = *knowledge,
      .history = HistoryQueries(reader),
      .feed = {.subscribe =
                   [&followers](std::string_view id, std::int64_t after_revision, EventSink sink) {
                     return followers.Add(id, after_revision, std::move(sink));
                   },
               .unsubscribe = [&followers](std::int64_t id) { followers.Remove(id); }},
      .server_info =
          [&] {
            const auto store = OpenLocalReader(flags.store);
            return ServerInfo(*knowledge, store.ok() ? store->schema_version() : 0,
                              SizeOfStore(flags.store));
          },
      .show = ShowStudiesOf(flags.store),
      .learnt =
          [&](std::optional<std::int64_t> up_to) {
            return LocalHistory(flags.store, *knowledge, up_to);
          }};
  const auto server = HttpServer::Start({.listen = listen}, DashboardHandler(face));
  if (!server.ok()) return Fail(server.status(), flags.output);
  PrintData(fmt::format("dashboard at http://{}/\n", (*server)->address()));
  std::fflush(stdout);
  PollUntilEnd(followers, interrupt.token());
  followers.Close();
  (*server)->Shutdown();
  return kExitDone;
}

}  // namespace

void AddDashboardCommand(CLI::App& app, Program& program) {
  auto listen = std::make_shared<std::string>("127.0.0.1:8080");
  CLI::App& command = *app.add_subcommand(
      "dashboard", "serve the dashboard of the local history to this machine, read-only");
  command.add_option("--http", *listen, "HOST:PORT of this machine (port 0: any free one)")
      ->capture_default_str();
  command.callback([listen, &program] {
    program.run = [listen, &program] { return Serve(*listen, program.flags); };
  });
}

}  // namespace meshwright
