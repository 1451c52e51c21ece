#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "search_space/spec/model.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {

// Returns the list that a text such as "([0]*3+[1]*58)" means in Python; nullopt for other texts,
// and for lists that are longer than any model.
std::optional<std::vector<int>> NumbersOf(std::string_view list);

// Reads which layers have experts and which attend to a window, and puts the layers into the model.
// Everything else of the model is set; its number of layers is without the idle ones.
void ReadMegatronLayers(SettingReader& settings, ImportedJob& job, ModelSpec& model);

}  // namespace meshwright
