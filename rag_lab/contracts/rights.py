"""Who may read, and who asks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may read: everybody in the tenant (`public`), or the members of `groups`. ``Acl()`` admits nobody.

    With `policy` the readers are those that the policy of this id names when a request is made; `public` and `groups`
    then say nothing, and a policy that is not known admits nobody.
    """

    public: bool = False
    groups: tuple[str, ...] = ()
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. Group names are compared after NFC and case-sensitively."""

    tenant: str
    groups: tuple[str, ...] = ()
    user: str = ""
