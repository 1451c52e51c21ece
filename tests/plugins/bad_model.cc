// A cost model that misbehaves as --mode says and is sane otherwise. Our own tests must contain it,
// and `meshwright model check` must find its fault. With --tokens FIFO each start takes a byte.

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "tests/plugins/bad_service.h"

namespace meshwright {
namespace {

// Serves something that is not gRPC.
int ServeGarbage(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return 1;
  listen(listener, 8);
  for (;;) {
    const int client = accept(listener, nullptr, nullptr);
    const std::string garbage(1 << 16, '\x7f');
    if (write(client, garbage.data(), garbage.size()) < 0) std::perror("write");
    close(client);
  }
}

// Starts a child that leaves its parent's session and closes nothing.
void StartOrphan() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  for (;;) pause();
}

std::string FolderOf(const std::string& socket) { return socket.substr(0, socket.rfind('/')); }

int Serve(const std::string& mode, const std::string& socket) {
  const std::unique_ptr<grpc::Service> service = MakeBadService(mode, FolderOf(socket));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  // A server serves from its start on, so nobody may find it before its status is set.
  const std::string hidden = socket + ".hidden";
  builder.AddListeningPort("unix:" + hidden, grpc::InsecureServerCredentials());
  builder.RegisterService(service.get());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  if (mode == "not_serving") server->GetHealthCheckService()->SetServingStatus(false);
  if (std::rename(hidden.c_str(), socket.c_str()) != 0) return 1;
  server->Wait();
  return 0;
}

// Takes a token as from a licence server that has a fixed number and takes none back.
bool TakeToken(const std::string& path) {
  const int fifo = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  char token = 0;
  const bool is_taken = fifo >= 0 && read(fifo, &token, 1) == 1;
  if (fifo >= 0) close(fifo);
  return is_taken;
}

struct Options {
  std::string mode = "good";
  std::string socket = {};
  std::string tokens = {};
};

int Main(const Options& options) {
  const std::string& mode = options.mode;
  const bool has_licence = options.tokens.empty() || TakeToken(options.tokens);
  if (mode == "crash_at_start" || !has_licence) {
    std::fputs("no licence found\n", stderr);
    return 3;
  }
  if (mode == "hang_at_start") Hang(FolderOf(options.socket));
  if (mode == "garbage") return ServeGarbage(options.socket);
  if (mode == "orphans") StartOrphan();
  return Serve(mode, options.socket);
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  meshwright::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--mode") options.mode = argv[i + 1];
    if (std::string(argv[i]) == "--socket") options.socket = argv[i + 1];
    if (std::string(argv[i]) == "--tokens") options.tokens = argv[i + 1];
  }
  return meshwright::Main(options);
}
