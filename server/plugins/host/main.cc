// meshwright-costmodel-host: runs vendors' cost models out of process. As a host it loads a shared
// library and serves it; as a keeper (--confine) it confines a model's program and outlives it.

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <charconv>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

std::int64_t Number(const Flags& flags, std::string_view name) {
  const auto found = flags.values.find(name);
  std::int64_t number = -1;  // as a limit: none
  if (found != flags.values.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

std::string Text(const Flags& flags, std::string_view name) {
  const auto found = flags.values.find(name);
  return found == flags.values.end() ? std::string() : found->second;
}

int Fail(const absl::Status& status) {
  fmt::print(stderr, "error: {}\n", std::string(status.message()));
  return kExitInternal;
}

int Confine(const Flags& flags) {
  const auto code = RunConfined({.parent = static_cast<int>(Number(flags, "--parent")),
                                 .folder = Text(flags, "--folder"),
                                 .memory_bytes = Number(flags, "--memory-bytes"),
                                 .cpu_seconds = Number(flags, "--cpu-seconds"),
                                 .file_bytes = Number(flags, "--file-bytes"),
                                 .open_files = Number(flags, "--open-files"),
                                 .processes = Number(flags, "--processes"),
                                 .command = flags.command});
  return code.ok() ? *code : Fail(code.status());
}

int Serve(const std::string& library, const std::string& socket) {
  const auto api = LoadLibraryModel(library);
  if (!api.ok()) return Fail(api.status());
  const std::unique_ptr<grpc::Service> service = MakeLibraryService(**api);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return Fail(absl::UnavailableError("cannot listen on " + socket));
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
