#include "cli/source/stored_study.h"

#include "cli/local/local_store.h"
#include "cli/source/connection.h"
#include "search_space/base/status.h"
#include "server/rpc/client/client.h"

namespace meshwright {

absl::StatusOr<v1::GetStudyResponse> GetStudy(const std::string& id, const GlobalFlags& flags) {
  if (flags.server.empty()) return GetLocalStudy(flags.store, id);
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.GetStudy(id);
}

}  // namespace meshwright
