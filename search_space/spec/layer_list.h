#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "search_space/spec/model.h"

namespace meshwright {

// A model has few kinds of layers; Validate rejects one that has more.
inline constexpr std::size_t kMaxLayerKinds = 8;

// A number of layers of each kind, by its index in LayerList::kinds().
using LayerCounts = std::array<int, kMaxLayerKinds>;

// The layers of a valid model by kind.
class LayerList {
 public:
  explicit LayerList(const ModelSpec& model);

  // The distinct kinds in the order of their first layers, with every size filled in.
  [[nodiscard]] const std::vector<LayerKind>& kinds() const { return kinds_; }
  [[nodiscard]] std::size_t IndexAt(int layer) const {
    return static_cast<std::size_t>(indices_[static_cast<std::size_t>(layer)]);
  }
  [[nodiscard]] const LayerKind& KindAt(int layer) const { return kinds_[IndexAt(layer)]; }
  // Counts the layers from layer `first` on. The range may reach beyond the last layer, which
  // counts no more.
  [[nodiscard]] LayerCounts Count(int first, int count) const;
  // Returns true if all layers of a kind are neighbours, so that the layers of every range come in
  // the order of the kinds.
  [[nodiscard]] bool is_in_order() const { return is_in_order_; }

 private:
  std::vector<LayerKind> kinds_;
  std::vector<int> indices_;         // kind of each layer
  std::vector<LayerCounts> before_;  // layers before each layer, and before the end
  bool is_in_order_ = true;
};

// Returns true if a layer has a dense feed-forward whose width it does not state itself.
bool NeedsFfnSize(const ModelSpec& model);

// Returns true if some layers are priced by forms that no measured run has confirmed: linear
// attention, state spaces, and sparse attention behind an indexer.
bool HasUnconfirmedLayers(const ModelSpec& model);

// Returns the kinds of all layers, with every size filled in. The model need not be valid; a
// pattern that is longer than the model is cut.
std::vector<LayerRun> RunsOf(const ModelSpec& model);

}  // namespace meshwright
