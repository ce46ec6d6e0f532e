//! The rules around the allocator, one file for each part of the kernel.

/// Declares switches' types and their named values.
macro_rules! choices {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $vdoc:literal])* $variant:ident = $text:literal,)* })*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub enum $name { $($(#[doc = $vdoc])* $variant,)* }

            impl $crate::switch::Setting for $name {
                const CHOICES: &'static [$crate::switch::Choice] = &[
                    $($crate::switch::Choice { name: $text, summary: concat!($($vdoc),*) }),*
                ];
                fn name(self) -> &'static str {
                    match self { $(Self::$variant => $text),* }
                }
                fn find(name: &str) -> Option<Self> {
                    match name { $($text => Some(Self::$variant),)* _ => None }
                }
            }
        )*
    };
}

/// Declares a group of switches: a field for each, and the list by name.
macro_rules! group {
    (
        #[doc = $gdoc:literal]
        $group:ident: $Group:ident
        choice { $($(#[doc = $cdoc:literal])* $cfield:ident: $ctype:ty = $cfirst:expr,)* }
        number { $($(#[doc = $ndoc:literal])* $nfield:ident: $min:literal..=$max:literal = $nfirst:expr,)* }
    ) => {
        #[doc = $gdoc]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $Group {
            $($(#[doc = $cdoc])* pub $cfield: $ctype,)*
            $($(#[doc = $ndoc])* pub $nfield: u32,)*
        }

        impl $Group {
            /// The values of 3.10, on which later rows are based.
            pub(crate) const V3_10: Self = Self { $($cfield: $cfirst,)* $($nfield: $nfirst,)* };
        }

        static GROUP: $crate::switch::Group =
            $crate::switch::Group { name: stringify!($group), summary: $gdoc.trim_ascii() };

        /// The group's switches, in the order of the fields.
        pub(crate) static RULES: &[$crate::switch::Rule] = &[
            $($crate::switch::Rule {
                name: stringify!($cfield),
                group: &GROUP,
                docs: &[$($cdoc),*],
                values: $crate::switch::Values::Choices(<$ctype as $crate::switch::Setting>::CHOICES),
                get: |k| pageblock::policy::Value::Name($crate::switch::Setting::name(k.$group.$cfield)),
                set: |k, text| {
                    let value = <$ctype as $crate::switch::Setting>::find(text);
                    value.map(|v| k.$group.$cfield = v).is_some()
                },
            },)*
            $($crate::switch::Rule {
                name: stringify!($nfield),
                group: &GROUP,
                docs: &[$($ndoc),*],
                values: $crate::switch::Values::Number { min: $min, max: $max },
                get: |k| pageblock::policy::Value::Number(k.$group.$nfield),
                set: |k, text| {
                    let value = text.parse().ok().filter(|n| ($min..=$max).contains(n));
                    value.map(|n| k.$group.$nfield = n).is_some()
                },
            },)*
        ];
    };
}

pub mod compaction;
pub mod huge;
pub mod kcompactd;
pub mod kswapd;
pub mod memory;
pub mod reclaim;
pub mod shrinkers;
pub mod sysctl;
pub mod writeback;

use crate::switch::Rule;

/// The switches of every group, in the order in which they are printed.
pub(crate) static ALL: &[&[Rule]] = &[
    sysctl::RULES,
    compaction::RULES,
    kcompactd::RULES,
    kswapd::RULES,
    reclaim::RULES,
    shrinkers::RULES,
    writeback::RULES,
    memory::RULES,
    huge::RULES,
];
