#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/local/local_history.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/reports/chip_table.h"
#include "cli/reports/history_table.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "recorder/recorder.h"
#include "recorder/store/schema.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/convert/catalog_wire.h"
#include "server/convert/history_wire.h"
#include "server/engine/history_queries.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "vendor_models/catalogue.h"

namespace meshwright {
namespace {

absl::StatusOr<v1::ListChipsResponse> AllChips(const GlobalFlags& flags) {
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(const Catalogue chips, Catalogue::Load(flags.chips));
    return ListChips(chips);
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListChips();
}

absl::StatusOr<v1::Chip> OneChip(const std::string& id, const GlobalFlags& flags) {
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(const Catalogue chips, Catalogue::Load(flags.chips));
    ASSIGN_OR_RETURN(const v1::GetChipResponse response, GetChip(chips, id));
    return response.chip();
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  ASSIGN_OR_RETURN(const v1::GetChipResponse response, client.GetChip(id));
  return response.chip();
}

absl::StatusOr<v1::GetServerInfoResponse> Server(const GlobalFlags& flags) {
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
    return ServerInfo(knowledge, kSchemaVersion);
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.GetServerInfo();
}

absl::StatusOr<v1::ListCallersResponse> Callers(const GlobalFlags& flags) {
  if (flags.server.empty()) return v1::ListCallersResponse();
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListCallers();
}

struct AuditOptions {
  std::string caller = {};
  std::string method = {};
  std::string study = {};
  std::string from = {};
  std::string before = {};
  int page_size = 0;  // 0: the store's own
  std::string page_token = {};
};

FieldNames AuditNames() {
  return {{.field = "filter.created_from", .flag = "--from"},
          {.field = "filter.created_before", .flag = "--before"},
          {.field = "page_size", .flag = "--page-size"},
          {.field = "page_token", .flag = "--page-token"}};
}

absl::StatusOr<v1::ListAuditEventsResponse> Audit(const AuditOptions& options,
                                                  const GlobalFlags& flags) {
  v1::ListAuditEventsRequest request;
  request.set_page_size(options.page_size);
  request.set_page_token(options.page_token);
  v1::AuditFilter& filter = *request.mutable_filter();
  if (!options.caller.empty()) filter.set_caller(options.caller);
  if (!options.method.empty()) filter.set_method(options.method);
  if (!options.study.empty()) filter.set_study_id(options.study);
  if (!options.from.empty()) filter.set_created_from(options.from);
  if (!options.before.empty()) filter.set_created_before(options.before);
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(Recorder store, OpenLocalReader(flags.store));
    return ListAuditEvents(HistoryQueries(DirectAccess(store)), request);
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListAuditEvents(request);
}

}  // namespace

void AddChipCommand(CLI::App& app, Program& program) {
  CLI::App& group = *app.add_subcommand("chip", "list and show the chips that a cluster can name");
  group.require_subcommand(1);
  CLI::App& list =
      *group.add_subcommand("list", "list all chips, also the known ones that lack figures");
  list.callback([&program] {
    program.run = [&program] {
      return Print(AllChips(program.flags), program.flags.output, ChipTable);
    };
  });
  auto id = std::make_shared<std::string>();
  CLI::App& show = *group.add_subcommand("show", "show all figures of a chip with their sources");
  show.add_option("id", *id, "id or alias of the chip")->required();
  show.callback([id, &program] {
    program.run = [id, &program] {
      return Print(OneChip(*id, program.flags), program.flags.output, ChipReport);
    };
  });
}

void AddServerCommand(CLI::App& app, Program& program) {
  CLI::App& group =
      *app.add_subcommand("server", "describe a server, or this program if there is no --server");
  group.require_subcommand(1);
  CLI::App& show =
      *group.add_subcommand("info", "show its versions, rules, strategies and frameworks");
  show.callback([&program] {
    program.run = [&program] {
      return Print(Server(program.flags), program.flags.output, ServerTable);
    };
  });
  CLI::App& callers = *group.add_subcommand(
      "callers", "list who may call, and how often each has called since the server started");
  callers.callback([&program] {
    program.run = [&program] {
      return Print(Callers(program.flags), program.flags.output, CallerTable);
    };
  });
  auto options = std::make_shared<AuditOptions>();
  CLI::App& audit = *group.add_subcommand(
      "audit", "list who has called what that changes something, newest first");
  audit.add_option("--caller", options->caller, "only calls of this caller");
  audit.add_option("--method", options->method, "only calls of this method, such as CancelStudy");
  audit.add_option("--study", options->study, "only calls about this study");
  audit.add_option("--from", options->from,
                   "only calls at this time (RFC 3339 or a date) or later");
  audit.add_option("--before", options->before, "only calls before this time");
  audit.add_option("--page-size", options->page_size, "most calls to print (50)");
  audit.add_option("--page-token", options->page_token,
                   "continue after the page that printed this token");
  audit.callback([options, &program] {
    program.run = [options, &program] {
      return Print(NamedAsStated(Audit(*options, program.flags), AuditNames()),
                   program.flags.output, AuditTable);
    };
  });
}

}  // namespace meshwright
