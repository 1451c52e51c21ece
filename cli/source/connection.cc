#include "cli/source/connection.h"

#include <string>
#include <vector>

#include "cli/input/read_file.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// A file of one line ends with a line feed, which is no part of the token.
std::string WithoutEnd(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

absl::StatusOr<Client> ConnectTo(const GlobalFlags& flags) {
  std::vector<FieldViolation> violations;
  const auto read = [&](const char* flag, const std::string& path) -> std::string {
    if (path.empty()) return "";
    return ReadFor(flag, path, violations).value_or("");
  };
  const ServerFiles& files = flags.server_files;
  const ClientIdentity identity = {.token = WithoutEnd(read("--token-file", files.token)),
                                   .authority = read("--tls-ca", files.authority),
                                   .certificate = read("--tls-cert", files.certificate),
                                   .private_key = read("--tls-key", files.private_key)};
  if (!violations.empty()) return InvalidFields(violations);
  return Client::Connect(flags.server, identity);
}

}  // namespace meshwright
