#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/program/program.h"
#include "cli/reports/chip_table.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "recorder/schema.h"
#include "search_space/base/status.h"
#include "server/convert/catalog_wire.h"
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
}

}  // namespace meshwright
