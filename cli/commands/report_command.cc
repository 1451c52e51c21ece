#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands/commands.h"
#include "cli/input/whole_file.h"
#include "cli/local/local_history.h"
#include "cli/local/local_store.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "proto/json/json.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/convert/catalog_wire.h"
#include "server/convert/study_wire.h"
#include "server/engine/followers.h"
#include "server/engine/history_queries.h"
#include "server/http/http_message.h"
#include "server/http/read_api.h"
#include "server/http/read_face.h"
#include "server/http/report_page.h"
#include "server/process/exit_code.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

struct StudyFileFlags {
  std::string study = {};
  std::string file = {};
  bool replaces = false;
};

// Returns the events of a study so far as an array of JSON.
absl::StatusOr<std::string> EventsText(const StoreAccess& reader, const std::string& study) {
  Followers followers(reader);
  std::string text;
  ASSIGN_OR_RETURN(const std::int64_t id,
                   followers.Add(study, 0, [&text](const std::optional<EventRecord>& event) {
                     if (!event.has_value()) return;
                     if (!text.empty()) text += ',';
                     text += PrintJson(ToWire(*event), {});
                   }));
  followers.Remove(id);
  return "[" + text + "]";
}

// Returns the answers that the pages ask for when they show the study.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> AnswersAbout(
    const ReadFace& face, const StoreAccess& reader, const std::string& study) {
  RETURN_IF_ERROR(face.history.GetStudy(study).status());
  std::vector<std::pair<std::string, std::string>> answers;
  std::vector<std::string> addresses = ReportAddresses(study);
  const std::string events = addresses.back();
  addresses.pop_back();
  for (const std::string& address : addresses) {
    const std::size_t mark = address.find('?');
    HttpRequest request = {.path = "/" + address.substr(0, mark)};
    if (mark != std::string::npos) request.query = address.substr(mark + 1);
    HttpResponse response = AnswerRead(face, request).response;
    if (response.status != 200) {
      return absl::InternalError(fmt::format("{} answered {}", address, response.body));
    }
    answers.emplace_back(address, std::move(response.body));
  }
  ASSIGN_OR_RETURN(std::string text, EventsText(reader, study));
  answers.emplace_back(events, std::move(text));
  return answers;
}

int WriteStudyFile(const StudyFileFlags& flags, const GlobalFlags& global) {
  if (!global.server.empty()) {
    PrintNote("error: report takes no --server: the dashboard of a server offers the same file");
    return kExitUsage;
  }
  const auto knowledge = LoadKnowledge(global.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), global.output);
  const StoreAccess reader = LocalReads(global.store);
  const ReadFace face = {.knowledge = *knowledge,
                         .history = HistoryQueries(reader),
                         .feed = {},
                         .server_info =
                             [&] {
                               const auto store = OpenLocalReader(global.store);
                               return ServerInfo(*knowledge,
                                                 store.ok() ? store->schema_version() : 0);
                             },
                         .show = ShowStudiesOf(global.store)};
  const auto answers = AnswersAbout(face, reader, flags.study);
  if (!answers.ok()) return Fail(answers.status(), global.output);
  const auto page = ReportPage(*answers);
  if (!page.ok()) return Fail(page.status(), global.output);
  if (flags.file == "-") {
    PrintData(*page);
    return kExitDone;
  }
  if (const absl::Status written = WriteWholeFile(flags.file, *page, flags.replaces);
      !written.ok()) {
    return Fail(written, global.output);
  }
  PrintNote(fmt::format("{} has the study, to be opened in a browser", flags.file));
  return kExitDone;
}

}  // namespace

void AddReportCommand(CLI::App& app, Program& program) {
  auto flags = std::make_shared<StudyFileFlags>();
  CLI::App& command = *app.add_subcommand(
      "report", "write a study as one HTML file that needs no server and no network");
  command.add_option("study", flags->study, "id of the study")->required();
  command.add_option("--html", flags->file, "file to write; - is stdout")->required();
  command.add_flag("--replace", flags->replaces, "overwrite the file if there is one");
  command.callback([flags, &program] {
    program.run = [flags, &program] { return WriteStudyFile(*flags, program.flags); };
  });
}

}  // namespace meshwright
