"""Heat in a square plate that one side keeps warm, for the command line.

fdsolve run heat.py --set kappa=0.02 --plot heat.png --animate heat.gif
"""

import fdsolve as fd

grid = fd.Grid(
    t=fd.Time(0.0, 5.0, num=501, units="s"),
    x=fd.Axis(0.0, 1.0, num=41, units="m"),
    y=fd.Axis(0.0, 1.0, num=41, units="m"),
)
T = fd.Field("T", grid, units="°C")
T[...] = fd.rate(lambda T, kappa: kappa * fd.schemes.laplacian(T))
T[0] = 20.0
T[dict(y=[0, -1])] = fd.boundary.Neumann(0.0)
T[dict(x=-1)] = fd.boundary.Dirichlet(20.0)
T[dict(x=0)] = fd.boundary.Dirichlet(lambda y: 20.0 + 240.0 * y * (1.0 - y))

fields = T
parameters = dict(kappa=0.01)  # m²/s
options = dict(save=fd.every(50))
