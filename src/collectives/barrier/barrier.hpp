#pragma once

#include "collectives/group.hpp"

namespace qpmesh::collectives {

Task barrier_dissemination(Group group);

}  // namespace qpmesh::collectives
