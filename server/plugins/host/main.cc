// meshwright-costmodel-host: runs vendors' cost models out of process. As a host it loads a shared
// library and serves it; as a keeper (--confine) it confines a model's program and outlives it.

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "search_space/base/status.h"
#include "server/plugins/host/confinement.h"
#include "server/plugins/host/library_model.h"
#include "server/plugins/host/library_service.h"
#include "server/plugins/protocol/protocol.h"
#include "server/process/exit_code.h"

namespace meshwright {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;

constexpr char kUsage[] =
    "meshwright-costmodel-host --library FILE --socket FILE\n"
    "meshwright-costmodel-host --confine --parent PID --folder FOLDER --memory-bytes N\n"
    "    --cpu-seconds N --file-bytes N --open-files N --processes N\n"
    "    -- PROGRAM [ARGUMENT...]\n";

struct Flags {
  std::map<std::string, std::string, std::less<>> values = {};
  bool confines = false;
  std::vector<std::string> command = {};
};

Flags ReadFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") {
      flags.command.assign(argv + i + 1, argv + argc);
      break;
    }
    if (word == "--confine") {
      flags.confines = true;
    } else if (word.starts_with("--") && i + 1 < argc) {
      flags.values[std::string(word)] = argv[++i];
    }
  }
  return flags;
}

// Reads a number that must be stated, because a program without one of its limits would not be
// confined.
absl::StatusOr<std::int64_t> Number(const Flags& flags, std::string_view name) {
  const auto found = flags.values.find(name);
  if (found == flags.values.end()) {
    return absl::InvalidArgumentError(fmt::format("{} is absent; must be a number", name));
  }
  const std::string& text = found->second;
  const char* const end = text.data() + text.size();
  std::int64_t number = 0;
  const auto [last, mistake] = std::from_chars(text.data(), end, number);
  if (mistake == std::errc() && last == end && number >= 1) return number;
  return absl::InvalidArgumentError(
      fmt::format("{} = '{}'; must be a whole number of at least 1", name, text));
}

std::string Text(const Flags& flags, std::string_view name) {
  const auto found = flags.values.find(name);
  return found == flags.values.end() ? std::string() : found->second;
}

absl::StatusOr<Confinement> ReadConfinement(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::int64_t parent, Number(flags, "--parent"));
  Confinement confinement = {.parent = static_cast<pid_t>(parent),
                             .folder = Text(flags, "--folder"),
                             .command = flags.command};
  ASSIGN_OR_RETURN(confinement.memory_bytes, Number(flags, "--memory-bytes"));
  ASSIGN_OR_RETURN(confinement.cpu_seconds, Number(flags, "--cpu-seconds"));
  ASSIGN_OR_RETURN(confinement.file_bytes, Number(flags, "--file-bytes"));
  ASSIGN_OR_RETURN(confinement.open_files, Number(flags, "--open-files"));
  ASSIGN_OR_RETURN(confinement.processes, Number(flags, "--processes"));
  return confinement;
}

int Fail(const absl::Status& status, int exit_code) {
  fmt::print(stderr, "error: {}\n", std::string(status.message()));
  return exit_code;
}

int Confine(const Flags& flags) {
  const auto confinement = ReadConfinement(flags);
  if (!confinement.ok()) return Fail(confinement.status(), kExitUsage);
  const auto code = RunConfined(*confinement);
  return code.ok() ? *code : Fail(code.status(), kExitInternal);
}

int Serve(const std::string& library, const std::string& socket) {
  const auto api = LoadLibraryModel(library);
  if (!api.ok()) return Fail(api.status(), kExitInternal);
  const std::unique_ptr<grpc::Service> service = MakeLibraryService(**api);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return Fail(absl::UnavailableError("cannot listen on " + socket), kExitInternal);
  }
  server->Wait();
  return 0;
}

int Main(int argc, char** argv) {
  const Flags flags = ReadFlags(argc, argv);
  if (flags.confines && !flags.command.empty()) return Confine(flags);
  const std::string library = Text(flags, "--library");
  const std::string socket = Text(flags, kSocketFlag);
  if (!library.empty() && !socket.empty()) return Serve(library, socket);
  fmt::print(stderr, "{}", kUsage);
  return kExitUsage;
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  try {
    return meshwright::Main(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return meshwright::kExitInternal;
  }
}
